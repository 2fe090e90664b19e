"""Arguments of `nerfmac report`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from nerfmac.app.cli.choices import Device
from nerfmac.app.cli.declared import POSITIONAL, Shown


@dataclass(frozen=True)
class Arguments:
    """Write a self-contained HTML report about a run. It contains the configuration, training
    curves, images, the views with the lowest PSNR, package versions, and timings. If
    RUN/profile.json exists, the report also contains the profile."""

    run: Annotated[Path, POSITIONAL, Shown("RUN")]
    """Run folder."""
    out: Annotated[Path | None, Shown("FILE.html")] = None
    """HTML file to write. [default: RUN/report.html]"""
    seconds: float = 20.0
    """Approximate time for evaluating test views in seconds. With larger values, nerfmac evaluates
    more views."""
    device: Device = "auto"
    """Device to use. auto uses the GPU if available. [default: auto]"""
