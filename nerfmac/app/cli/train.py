"""`nerfmac train`: train a run, evaluate it, and render a turntable video."""

import logging
import signal
import time
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import fields
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any

from nerfmac.app.cli.arguments import built
from nerfmac.app.cli.options import Train
from nerfmac.app.run import CONFIGURED, Outputs, Run, Training, check_goal
from nerfmac.app.run.start import begin_training, resume_training, train_and_evaluate
from nerfmac.app.video import render_video, video_seconds, video_size
from nerfmac.backend import choose_device, current_device, limit_memory, memory_bytes, uncompiled
from nerfmac.common import InputError, duration, log, read_json
from nerfmac.config import Config, preset as preset_config
from nerfmac.config.rendering import VideoOptions
from nerfmac.config.scenes import described
from nerfmac.ranks import join
from nerfmac.training.clock import note_continued
from nerfmac.training.goal import Goal
from nerfmac.training.method import Method

TURNTABLE_SECONDS = 4.0
TURNTABLE_FPS = 24.0
MAX_SECONDS = 240.0
"""Rendering time of the turntable video in seconds above which it is not rendered."""


def main(given: Mapping[str, Any], method: Method = CONFIGURED) -> int:
    """Run `nerfmac train` with the `given` arguments (`given_by`) and return the exit code."""
    start = time.perf_counter()
    # The defaults of the settings depend on these options.
    choose_device(given.get("--device", "auto"))
    name, model = given.get("--preset", "auto"), given.get("--model", "hash")
    default = preset_config(name, current_device(), memory_bytes(), model)
    arguments = built(Train, given, default=Train(settings=default))
    signal.signal(signal.SIGCONT, note_continued)
    if not join().is_first:
        log.setLevel(logging.WARNING)  # The first rank logs for all ranks.
    limit_memory(arguments.memory_limit, arguments.memory_fraction)
    goal = Goal(arguments.steps, arguments.seconds)
    with nullcontext() if arguments.compile else uncompiled():
        if arguments.resume:
            training = _resumed(arguments, goal, method, filter(_is_setting, given))
        else:
            training = begin_training(
                arguments.scene,
                arguments.settings,
                goal,
                method=method,
                out=arguments.out or "auto",
                options=arguments.options(),
            )
        outputs = Outputs(
            training,
            start,
            all_views=arguments.all_views,
            on_end=partial(save_turntable, training) if arguments.video else None,
        )
        train_and_evaluate(training, goal, outputs)
    if training.folder is not None:
        print(_summary(training.run, training.folder))
        print(_next_commands(training.folder))
    return 0


def _resumed(arguments: Train, goal: Goal, method: Method, typed: Iterable[str]) -> Training:
    """Return the training of the run in the folder --out. `typed` are the given settings."""
    if settings := " and ".join(typed):
        raise InputError(
            f"a resumed run uses its configuration; remove {settings}, or start a new run without "
            "--resume"
        )
    if arguments.out is None:
        raise InputError("--resume requires the folder of the run; pass --out FOLDER")
    check_goal(goal)
    options = arguments.given()
    return resume_training(arguments.out, arguments.scene, method=method, options=options)


def _is_setting(name: str) -> bool:
    """Return whether an option sets a field of the configuration."""
    field = name.removeprefix("--").partition(".")[0].replace("-", "_")
    return name.startswith("--") and field in {f.name for f in fields(Config)}


def _summary(run: Run, out: Path) -> str:
    """Return a line with the folder, steps, training time, and quality of a run."""
    metrics, held_out = read_json(out / "metrics.json"), described(run.scene.options.split)
    quality = f"no test views (split: {held_out})"
    if metrics["test_views"]:
        quality = f"PSNR {metrics['psnr_test']:.2f} dB"
        if run.config.refine.changes_colors:
            quality += f" ({metrics['psnr_corrected_test']:.2f} with fitted view colors)"
        quality += f", SSIM {metrics['ssim_test']:.3f}"
        quality += f" on {metrics['test_measured']} (split: {held_out})"
    steps = f"{run.state.step} steps in {run.state.train_seconds:.1f} s"
    return f"{out}: {steps} on {metrics['device_name']}; {quality}"


def _next_commands(out: Path) -> str:
    """Return a line with the path of the video and suggested commands."""
    view = f"open the run in the viewer with `nerfmac view {quote(str(out))}`"
    if (out / "video.mp4").is_file():
        return f"the turntable video is {out / 'video.mp4'}; {view}"
    return f"render a video with `nerfmac render {quote(str(out))}`; {view}"


def save_turntable(training: Training) -> None:
    """If the run has a folder, render a turntable video to `video.mp4` in the folder.

    The size and the number of frames do not depend on the training time. If rendering would take
    more than `MAX_SECONDS`, no video is rendered, and an existing video is kept.
    """
    if training.folder is None:
        return
    run, path = training.run, training.folder / "video.mp4"
    size = video_size(run.scene.cameras("train")[0].lens)
    cameras = run.orbit(round(TURNTABLE_SECONDS * TURNTABLE_FPS), size)
    seconds = video_seconds(run, cameras)
    if seconds > MAX_SECONDS:
        log.info(
            "%s is not rendered, because this would take about %s; run `nerfmac render %s` to "
            "render a video",
            *(path.name, duration(seconds), quote(str(path.parent))),
        )
        return
    video = VideoOptions(fps=TURNTABLE_FPS, overwrite=True)
    render_video(run, cameras, path, video=video)
