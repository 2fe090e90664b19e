"""Arguments of `nerfmac eval`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from nerfmac.app.cli.choices import Device
from nerfmac.app.cli.declared import POSITIONAL, Shown


@dataclass(frozen=True)
class Arguments:
    """Render every view of a split and compare each rendering with its photo."""

    run: Annotated[Path, POSITIONAL, Shown("RUN")]
    """Run folder, or a snapshot of instant-ngp (.ingp, .msgpack)."""
    scene: Annotated[Path | None, Shown("SCENE")] = None
    """Scene folder. Required for a snapshot, or if the scene folder of a run has been moved."""
    split: Literal["test", "val", "train"] = "test"
    """Split to evaluate."""
    background: Literal["white", "black"] = "white"
    """Background color behind renderings and behind photos with an alpha channel."""
    json: Annotated[Path | None, Shown("FILE")] = None
    """Also write the metrics and the evaluation protocol to this JSON file."""
    html: Annotated[Path | None, Shown("FILE")] = None
    """Also write an HTML page with the photo, rendering, error, and depth of each view."""
    lpips: Annotated[Path | None, Shown("WEIGHTS")] = None
    """Also compute LPIPS with the network weights in this .safetensors or .npz file.
    docs/benchmarks.md describes how to create the file."""
    device: Device = "auto"
    """Device to use. auto uses the GPU if available. [default: auto]"""
