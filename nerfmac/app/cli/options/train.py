"""Arguments of `nerfmac train`."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

from nerfmac.app.cli.choices import Device, Preset
from nerfmac.app.cli.declared import POSITIONAL, Shown
from nerfmac.app.cli.scene_flags import SceneFlags
from nerfmac.config import Config


@dataclass(frozen=True)
class Arguments(Config, SceneFlags):
    """Train a radiance field on a scene, evaluate it, and render a turntable video."""

    scene: Annotated[Path | None, POSITIONAL, Shown("[SCENE]")] = None
    """Scene folder (Blender, instant-ngp, nerfstudio, COLMAP, LLFF, Record3D, Polycam), a video, or
    a folder of photos. For a video or photos, nerfmac first estimates the camera poses. [default:
    the built-in scene]"""
    out: Annotated[Path | None, Shown("FOLDER")] = None
    """Run folder to write. [default: runs/SCENE-TIME]"""
    steps: Annotated[int | None, Shown("INT")] = None
    """Total number of training steps, including the steps before --resume. [default: --train.steps,
    unless --seconds is given]"""
    seconds: Annotated[float | None, Shown("FLOAT")] = None
    """Total training time in seconds, including the time before --resume. Cannot be used with
    --steps."""
    device: Device = "auto"
    """Device to use. auto uses the GPU if available. [default: auto]"""
    preset: Preset = "auto"
    """Model size. auto selects a preset that fits the device and its memory. [default: auto]"""
    resume: bool = False
    """Resume training the run in --out, with the scene and configuration stored in the run."""
    tensorboard: bool = False
    """Also write scalars and images for TensorBoard to FOLDER/tensorboard."""
    compile: bool = True
    """Compile the training step with mx.compile. For debugging, use --no-compile. Training is
    slower without compilation."""
    memory_limit: Annotated[float | None, Shown("GIB")] = None
    """Maximum device memory for training in GiB. [default: all free memory of the device]"""
    memory_fraction: Annotated[float | None, Shown("FRACTION")] = None
    """Maximum fraction of the device memory for training. Cannot be used with --memory-limit."""
    video: bool = True
    """Render a turntable video after training."""
    all_views: bool = False
    """Evaluate all test views. By default, nerfmac evaluates as many views as possible while the
    whole command takes at most about twice the training time plus 30 seconds."""

    def __post_init__(self) -> None:
        """Skip validation, because the preset may still be `auto`. The method `config` validates
        the settings."""

    def config(self, preset: str) -> Config:
        """Return the settings as a validated `Config` that is based on `preset`."""
        settings = {setting.name: getattr(self, setting.name) for setting in fields(Config)}
        return Config(**settings | {"preset": preset})
