"""Options of the commands that create a scene or a run."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Literal

from nerfmac.app.cli.declared import POSITIONAL, Shown
from nerfmac.app.cli.shared_options import Device, Preset, SceneFlags
from nerfmac.config import Config


@dataclass(frozen=True)
class Data:
    """List public scenes with their size, license, and source, or download a scene.

    Only the download uses the network.
    """

    scene: Annotated[str | None, POSITIONAL, Shown("[SCENE]")] = None
    """Scene to download, such as lego or mipnerf360/room. Without SCENE, nerfmac lists all
    scenes."""
    out: Path = Path("data")
    """Folder for downloads. nerfmac saves the scene in OUT/COLLECTION/SCENE and resumes interrupted
    downloads."""


@dataclass(frozen=True)
class Capture:
    """Estimate the camera poses of photos or video frames, and write a scene."""

    source: Annotated[Path, POSITIONAL]  # Video file, or folder of photos.
    out: Annotated[Path | None, Shown("SCENE")] = None
    """Scene folder. If it contains an unfinished capture of the same source, nerfmac resumes it.
    [default: captures/NAME]"""
    longest_side: Annotated[int, Shown("PIXELS")] = 1920
    """Maximum length of the longer image side in pixels. Larger images are downscaled."""
    frames: Annotated[int | None, Shown("N")] = None
    """Approximate number of frames to extract from a video. [default: 50 to 200, depending on how
    much the camera moves]"""
    matching: Literal["auto", "sequential", "exhaustive", "window"] = "auto"
    """Pairs of images to match. exhaustive matches all pairs and is slow for hundreds of images.
    sequential matches each image with the next 10 images in name order, and then with images from
    nearby cameras. window matches each image with the next 40 images. auto uses sequential for
    videos, and for photos if their names follow the order of capture. For other photos, auto uses
    exhaustive, or window for 100 or more images. If sequential matching registers too few images,
    or if the camera poses contradict the order of capture, auto also tries exhaustive or window,
    and uses the result that agrees better with the order of capture."""
    focal_35mm: Annotated[float | None, Shown("MM")] = None
    """35 mm equivalent focal length of all images in millimeters. The main camera of most phones
    has an equivalent focal length of 24 to 28 mm. [default: the value in the EXIF data; if the EXIF
    data contains no focal length, nerfmac compares several values]"""


@dataclass(frozen=True)
class Inspect(SceneFlags):
    """Summarize a scene, report possible problems, and draw its cameras and points."""

    scene: Annotated[Path, POSITIONAL] = field(kw_only=True)
    """Scene folder, video, or folder of photos. For a video or photos, nerfmac first estimates the
    camera poses."""
    out: Annotated[Path | None, Shown("FILE")] = None
    """PNG file for the drawing of cameras and sparse points. [default: NAME-cameras.png in the
    current folder]"""
    against: Annotated[Path | None, Shown("SCENE")] = None
    """Reference scene with the same images. nerfmac aligns the cameras of the two scenes and
    reports their differences."""


@dataclass(frozen=True)
class Train(Config, SceneFlags):
    """Train a radiance field on a scene, evaluate it, and render a turntable video."""

    scene: Annotated[Path | None, POSITIONAL, Shown("[SCENE]")] = None
    """Scene folder (Blender, instant-ngp, nerfstudio, COLMAP, LLFF, Record3D, Polycam), a video, or
    a folder of photos. For a video or photos, nerfmac first estimates the camera poses. [default:
    the built-in scene]"""
    out: Annotated[Path | None, Shown("FOLDER")] = None
    """Run folder to write. [default: runs/SCENE-TIME]"""
    steps: int | None = None
    """Total number of training steps, including the steps before --resume. [default: --train.steps,
    unless --seconds is given]"""
    seconds: float | None = None
    """Total training time in seconds, including the time before --resume. Cannot be used with
    --steps."""
    device: Device = "auto"  # Device to use. auto uses the GPU if available. [default: auto]
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
    video: bool = True  # Render a turntable video after training.
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
