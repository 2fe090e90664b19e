"""`nerfmac train`: `nerfmac.train` with flags, and a turntable video at the end."""

from __future__ import annotations

import logging
import math
import signal
from contextlib import nullcontext
from dataclasses import dataclass, fields
from pathlib import Path
from shlex import quote
from typing import Annotated

from nerfmac.app.cli.arguments import parsed
from nerfmac.app.cli.choices import Device, Model, Preset
from nerfmac.app.cli.declared import POSITIONAL, Shown
from nerfmac.app.cli.scene_flags import SceneFlags
from nerfmac.app.run import CONFIGURED, Run, scaled_size
from nerfmac.app.run import train as train_run
from nerfmac.app.scenes.options import described
from nerfmac.app.video import render_video
from nerfmac.backend import choose_device, current_device, memory_bytes, uncompiled
from nerfmac.common.files import read_json
from nerfmac.config import Config
from nerfmac.config.presets import preset as preset_config
from nerfmac.ranks import join
from nerfmac.rendering.pace import seconds_per_pixel
from nerfmac.training.clock import note_continued
from nerfmac.training.method import Method

log = logging.getLogger("nerfmac")

TURNTABLE_SECONDS = 4.0
TURNTABLE_FRAMES = 48
FEWEST_FRAMES = 24
"""Smallest number of frames in a turntable: 6 per second."""
TURNTABLE_SIDE = 480
"""Shorter side of a turntable's frames in pixels: the least on a GPU, and the one on a CPU. Photos
that are smaller give smaller frames."""
SMALLEST_TURNTABLE = 192
"""Smallest longer side of frames, in pixels, where time is too short for `TURNTABLE_SIDE`."""
TRIALS = 4
"""Number of frames rendered first to estimate the time per pixel."""
VIDEO = 2 / 5
"""Fraction of the time left that the turntable may take. The evaluation gets a half."""


@dataclass(frozen=True)
class Arguments(Config, SceneFlags):
    """Train a radiance field on a scene, evaluate it and render a video around it."""

    scene: Annotated[Path | None, POSITIONAL, Shown("[SCENE]")] = None
    """Folder of a scene (Blender, instant-ngp, nerfstudio, COLMAP, LLFF, Record3D, Polycam), or a
    video or folder of photos, whose cameras are then found first; by default the built-in
    scene."""
    out: Annotated[Path | None, Shown("FOLDER")] = None
    """Folder in which the run is saved; by default runs/SCENE-TIME."""
    steps: Annotated[int | None, Shown("INT")] = None
    """Total number of training steps. Those before --resume count. By default --train.steps, unless
    --seconds is given."""
    seconds: Annotated[float | None, Shown("FLOAT")] = None
    """Total training time in seconds, in place of --steps. The time before --resume counts."""
    device: Device = "auto"
    """Device that computes; auto takes the GPU if there is one."""
    preset: Preset = "auto"
    """Size of the model; auto goes by device and memory."""
    resume: bool = False
    """Continue training the run in --out, with its own scene and configuration."""
    tensorboard: bool = False
    """Also write scalars and images for TensorBoard to FOLDER/tensorboard."""
    compile: bool = True
    """Compile the training step with mx.compile. --no-compile: slower, for debugging."""
    memory_limit: Annotated[float | None, Shown("GIB")] = None
    """Device memory that training may take, in GiB; by default all that is free."""
    memory_fraction: Annotated[float | None, Shown("FRACTION")] = None
    """Fraction of the device memory that training may take, in place of --memory-limit."""
    video: bool = True
    """Render a turntable video at the end."""
    all_views: bool = False
    """Evaluate every test view, however long it takes. By default only as many as fit if the
    command is to take about twice the training time plus half a minute."""

    def __post_init__(self) -> None:
        """Check nothing: the preset may still be `auto`. `config` makes a checked `Config`."""

    def config(self, preset: str) -> Config:
        """The settings as a `Config` that names the `preset` they were taken from."""
        settings = {setting.name: getattr(self, setting.name) for setting in fields(Config)}
        return Config(**settings | {"preset": preset})


def main(argv: list[str], method: Method = CONFIGURED) -> int:
    """Train as `argv` says; return the exit code."""
    # The defaults of the configuration's flags depend on these three flags: they are read first.
    early = parsed(_Early, _only(argv, "--preset", "--device", "--model"))
    choose_device(early.device)
    default = preset_config(early.preset, current_device(), memory_bytes(), early.model)
    settings = {setting.name: getattr(default, setting.name) for setting in fields(Config)}
    arguments = parsed(Arguments, argv, default=Arguments(**settings))
    signal.signal(signal.SIGCONT, note_continued)
    config = arguments.config(default.preset)
    is_own = arguments.resume and config == default and not _only(argv, "--model")
    if not join().is_first:
        log.setLevel(logging.WARNING)  # the first rank logs for all
    with nullcontext() if arguments.compile else uncompiled():
        run = train_run(
            arguments.scene,
            steps=arguments.steps,
            seconds=arguments.seconds,
            device=arguments.device,
            preset=early.preset if arguments.resume else "auto",
            config=None if is_own else config,
            method=method,
            out=arguments.out or "auto",
            resume=arguments.resume,
            memory_limit=arguments.memory_limit,
            memory_fraction=arguments.memory_fraction,
            tensorboard=arguments.tensorboard,
            all_views=arguments.all_views,
            interruptible=False,
            on_end=save_turntable if arguments.video else None,
            **arguments.given(),
        )
    if run.folder is not None:
        print(_summary(run, run.folder))
        print(_next(run.folder))
    return 0


@dataclass(frozen=True)
class _Early:
    preset: Preset = "auto"
    device: Device = "auto"
    model: Model = "hash"


def _only(argv: list[str], *flags: str) -> list[str]:
    """The `flags` that are in `argv`, which `checked` has written, with their values."""
    return [word for word in argv if word.partition("=")[0] in flags]


def _summary(run: Run, out: Path) -> str:
    """A line with the run's folder, steps, time and quality."""
    metrics, held_out = read_json(out / "metrics.json"), described(run.scene.options.split)
    quality = f"no test views ({held_out})"
    if metrics["test_views"]:
        quality = f"PSNR {metrics['psnr_test']:.2f} dB"
        if run.config.refine.changes_colors:
            quality += f" ({metrics['psnr_corrected_test']:.2f} with each view's colors fitted)"
        quality += f", SSIM {metrics['ssim_test']:.3f}"
        quality += f" on {metrics['test_measured']} ({held_out})"
    steps = f"{run.state.step} steps in {run.state.train_seconds:.1f} s"
    return f"{out}: {steps} on {metrics['device_name']}; {quality}"


def _next(out: Path) -> str:
    """A line with the run's video and the next command."""
    view = f"`nerfmac view {quote(str(out))}` opens the run in the viewer"
    if (out / "video.mp4").is_file():
        return f"{out / 'video.mp4'} shows the scene from all sides; {view}"
    return f"`nerfmac render {quote(str(out))}` renders a video; {view}"


def save_turntable(run: Run, seconds: float) -> None:
    """Write a 4 s video around the scene to the run's `video.mp4`, in about 2/5 of `seconds`.

    If time is short, frames are smaller, down to `TURNTABLE_SIDE`, then fewer, down to 6 per
    second, then smaller still, down to `SMALLEST_TURNTABLE`. If it is too short for that, there is
    no video, and an older one is removed. The log says so.
    """
    if run.folder is None:
        return
    path, lens = run.folder / "video.mp4", run.scene.cameras[0].lens
    least = min(1.0, TURNTABLE_SIDE / min(lens.width, lens.height))
    full = least if current_device() == "cpu" else 1.0
    trial = run.orbit(TRIALS, scaled_size(lens, full))
    pixels = VIDEO * seconds / seconds_per_pixel(run.renderer(), trial)
    fitting = math.sqrt(pixels / (TURNTABLE_FRAMES * lens.width * lens.height))
    scale = min(full, max(fitting, least))
    count = min(int(pixels / (scale**2 * lens.width * lens.height)), TURNTABLE_FRAMES)
    longer = max(lens.width, lens.height)
    if count < FEWEST_FRAMES:  # a small video is better than none
        count = FEWEST_FRAMES
        scale = math.sqrt(pixels / (count * lens.width * lens.height))
    if scale < min(1.0, SMALLEST_TURNTABLE / longer):
        path.unlink(missing_ok=True)
        log.info(
            "as time is short, there is no %s; `nerfmac render %s` renders a video",
            *(path.name, path.parent),
        )
        return
    cameras = run.orbit(count, scaled_size(lens, scale))
    if scale < full or count < TURNTABLE_FRAMES:
        size = cameras[0].lens
        shown = path.name, count, size.width, size.height
        log.info("as time is short, %s has %d frames of %dx%d pixels", *shown)
        if scale < least:
            log.info("`nerfmac render %s` renders a larger video", path.parent)
    render_video(run, cameras, path, fps=count / TURNTABLE_SECONDS, overwrite=True)
