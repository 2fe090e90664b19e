"""Arguments of `nerfmac report`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from nerfmac.app.cli.choices import Device
from nerfmac.app.cli.declared import POSITIONAL, Shown


@dataclass(frozen=True)
class Arguments:
    """Write a self-contained HTML report of a run. It contains the configuration, curves, images,
    worst views, versions, timings and, if RUN/profile.json exists, a profile."""

    run: Annotated[Path, POSITIONAL, Shown("RUN")]
    """Run folder."""
    out: Annotated[Path | None, Shown("FILE.html")] = None
    """HTML file to write. [default: RUN/report.html]"""
    seconds: float = 20.0
    """Approximate time for evaluating test views in seconds. With larger values, nerfmac evaluates
    more views."""
    device: Device = "auto"
    """Device to use. auto uses the GPU if available. [default: auto]"""
