"""Arguments of `nerfmac profile`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from nerfmac.app.cli.choices import Device, Preset
from nerfmac.app.cli.declared import POSITIONAL, Shown
from nerfmac.app.cli.scene_flags import SceneFlags
from nerfmac.config.presets import Model


@dataclass(frozen=True)
class Arguments(SceneFlags):
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
    device: Device = "auto"
    """Device to use. auto uses the GPU if available. [default: auto]"""
