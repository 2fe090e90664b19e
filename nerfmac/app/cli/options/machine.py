"""Options of the commands that check this machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from nerfmac.app.cli.declared import POSITIONAL, Shown
from nerfmac.app.cli.shared_options import Device, Preset, SceneFlags
from nerfmac.config.presets import Model


@dataclass(frozen=True)
class Info:
    """Show the device, the backend and variant of every operation, and the folders of nerfmac."""

    device: Device = "auto"  # Device to describe. auto uses the GPU if available. [default: auto]


@dataclass(frozen=True)
class Tune(SceneFlags):
    """Time the kernel variants of each operation, and store the fastest ones for this machine."""

    scene: Annotated[Path | None, POSITIONAL, Shown("[SCENE]")] = None
    """Scene that determines the problem sizes to measure. [default: an object in the unit cube]"""
    device: Device = "auto"  # Device to use. auto uses the GPU if available. [default: auto]
    preset: Preset = "auto"
    """Preset that determines the problem sizes. auto selects a preset that fits the device and its
    memory. [default: auto]"""
    seconds: float | None = None
    """Approximate time per operation in seconds. Longer measurements are less noisy.
    [default: 0.5]"""
    json: Annotated[Path | None, Shown("FILE")] = None
    """Also write the measurements to this JSON file."""


@dataclass(frozen=True)
class Bench(SceneFlags):
    """Time each operation, as a kernel and in plain MLX, and the rendering of an image.

    With --models, compare the PSNR of the hash model and vanilla NeRF over training time instead.
    """

    preset: Preset = "auto"
    """Model size. auto selects a preset that fits the device and its memory. [default: auto]"""
    device: Device = "auto"  # Device to use. auto uses the GPU if available. [default: auto]
    seconds: float | None = None
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
    vanilla_seconds: float | None = None
    """Training time of the vanilla model in seconds. Requires --models. [default: --seconds]"""
    plot: Annotated[Path | None, Shown("FILE.png")] = None
    """Also plot PSNR over training time to this PNG file. Requires --models and the extra
    plot."""


@dataclass(frozen=True)
class Profile(SceneFlags):
    """Measure the training step time by stage and kernel, on the device and on the host."""

    run_or_scene: Annotated[Path | None, POSITIONAL, Shown("[RUN|SCENE]")] = None
    """Run to profile, starting from its saved state, or scene to train before the measurement. The
    run folder is not changed. [default: the built-in scene]"""
    steps: Annotated[int | None, Shown("N")] = None
    """Number of training steps to time and to include in the timeline of --trace. By default,
    --seconds determines the number of timed steps, and the timeline contains 64 steps."""
    warmup: Annotated[int | None, Shown("N")] = None
    """Number of training steps before the measurement. [default: 0 for a run, 1024 for a scene]"""
    seconds: float = 1.0
    """Approximate time per measurement in seconds. Longer measurements are less noisy."""
    trace: Annotated[Path | None, Shown("FILE.json")] = None
    """Also write a timeline for ui.perfetto.dev or chrome://tracing. The timeline contains training
    steps, occupancy grid updates, the kernels of one step, an evaluation, and a video
    rendering."""
    json: Annotated[Path | None, Shown("FILE")] = None
    """Also write the measurements to this JSON file. If the file is RUN/profile.json, nerfmac
    report includes the measurements."""
    gpu_trace: Annotated[Path | None, Shown("FILE.gputrace")] = None
    """Also write an Xcode GPU trace of a training step. Requires a Mac and the environment variable
    MTL_CAPTURE_ENABLED=1."""
    preset: Preset = "auto"
    """Model size for profiling a scene. auto selects a preset that fits the device and its memory.
    [default: auto]"""
    model: Model = "hash"
    """Model for profiling a scene. hash uses a hash encoding and small MLPs. vanilla is the
    original NeRF."""
    device: Device = "auto"  # Device to use. auto uses the GPU if available. [default: auto]


@dataclass(frozen=True)
class Selftest:
    """Compare the results and gradients of every kernel with its reference implementation in plain
    MLX."""

    device: Literal["all", "metal", "cuda", "cpu"] = "all"
    """Device to test. all tests every device of this machine."""
    operation: Annotated[str | None, Shown("NAME")] = None
    """Test only the kernels of this operation. `nerfmac info` lists the operations."""
    report: Annotated[Path | None, Shown("FILE")] = None
    """Also train the built-in scene, time the kernels, and write all results to this JSON file.
    Attach the file to bug reports."""
    seconds: float | None = None
    """Training time per device in seconds. Requires --report. The value 0 skips training and
    timing. [default: 30]"""
    dump_metal: Annotated[Path | None, Shown("FOLDER")] = None
    """Write the Metal source code of every kernel to this folder instead of running the tests. This
    option also works on machines without Metal."""
