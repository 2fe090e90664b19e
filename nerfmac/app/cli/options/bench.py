"""Arguments of `nerfmac bench`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from nerfmac.app.cli.choices import Device, Preset
from nerfmac.app.cli.declared import Shown
from nerfmac.app.cli.scene_flags import SceneFlags


@dataclass(frozen=True)
class Arguments(SceneFlags):
    """Time each operation, as a kernel and in plain MLX, and the rendering of an image.

    With --models, compare the PSNR of the hash model and vanilla NeRF over training time instead.
    """

    preset: Preset = "auto"
    """Model size. auto selects a preset that fits the device and its memory. [default: auto]"""
    device: Device = "auto"
    """Device to use. auto uses the GPU if available. [default: auto]"""
    seconds: Annotated[float | None, Shown("FLOAT")] = None
    """Approximate time per measurement in seconds. Longer measurements are less noisy. With
    --models, this option sets the training time of each model in seconds. [default: 1; 60 with
    --models]"""
    scene: Annotated[Path | None, Shown("SCENE")] = None
    """Scene that determines the problem sizes. With --models, the models are trained on this scene.
    [default: the built-in scene]"""
    json: Annotated[Path | None, Shown("FILE")] = None
    """Also write the measurements to this JSON file."""
    models: bool = False
    """Train the hash model and vanilla NeRF, and compare their PSNR over training time instead of
    timing operations."""
    vanilla_seconds: Annotated[float | None, Shown("FLOAT")] = None
    """Training time of the vanilla model in seconds. Requires --models. [default: --seconds]"""
    plot: Annotated[Path | None, Shown("FILE.png")] = None
    """Also plot PSNR over training time to this PNG file. Requires --models and the extra
    plot."""
