"""Arguments of `nerfmac tune`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from nerfmac.app.cli.choices import Device, Preset
from nerfmac.app.cli.declared import POSITIONAL, Shown
from nerfmac.app.cli.scene_flags import SceneFlags


@dataclass(frozen=True)
class Arguments(SceneFlags):
    """Time the kernel variants of each operation, and store the fastest ones for this machine."""

    scene: Annotated[Path | None, POSITIONAL, Shown("[SCENE]")] = None
    """Scene that determines the problem sizes to measure. [default: an object in the unit cube]"""
    device: Device = "auto"
    """Device to use. auto uses the GPU if available. [default: auto]"""
    preset: Preset = "auto"
    """Preset that determines the problem sizes. auto selects a preset that fits the device and its
    memory. [default: auto]"""
    seconds: Annotated[float | None, Shown("FLOAT")] = None
    """Approximate time per operation in seconds. Longer measurements are less noisy.
    [default: 0.5]"""
    json: Annotated[Path | None, Shown("FILE")] = None
    """Also write the measurements to this JSON file."""
