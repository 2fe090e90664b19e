"""From a scene to a trained run in one call."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from nerfmac.backend import backend, choose_device, device_name
from nerfmac.capture import captured
from nerfmac.common.checks import InputError
from nerfmac.common.files import check_free, user_path
from nerfmac.config import Config, override
from nerfmac.run.configured import check_given, configured
from nerfmac.run.folder import read_record
from nerfmac.run.limits import check_limits
from nerfmac.run.run import CONFIGURED, Run
from nerfmac.scenes import Scene, load_scene
from nerfmac.scenes.options import GivenSplit, SceneOptions, split_of
from nerfmac.training.goal import Report
from nerfmac.training.method import Method

log = logging.getLogger("nerfmac")


def train(
    scene: Scene | str | Path,
    *,
    steps: int | None = None,
    seconds: float | None = None,
    preset: str = "auto",
    device: str = "auto",
    seed: int = 0,
    config: Config | None = None,
    method: Method = CONFIGURED,
    out: str | Path | None = None,
    resume: bool = False,
    split: GivenSplit = None,
    progress: bool = True,
    on_report: Callable[[Report], None] | None = None,
) -> Run:
    """Train a field on a scene.

    Args:
        scene: a `Scene`, or the path of one; a video or a folder of photographs is captured first.
        steps, seconds: how long to train in all, in either unit; by default the preset's steps.
        preset: `tiny`, `small`, `base`, `big`, or `auto`, which chooses by device and memory.
        device: `metal`, `cuda` or `cpu`; `auto` takes the GPU where there is one, unless you have
            made the CPU MLX's default device.
        seed: seed of all random numbers.
        config: all settings, in place of `preset` and `seed`.
        method: a field, a sampler or a loss of your own.
        out: a folder to save the run in, at the start, every half minute and at the end.
        resume: train the run in `out` further, with its own configuration and scene's options.
        split: see `load_scene`, which has more options; only if `scene` is a path.
        progress: show a bar.
        on_report: called with each `Report`.

    An interruption (Ctrl-C) ends the training, but the run so far is still returned.
    `run.train(...)` trains it further.

    Raises:
        InputError: what was asked for cannot be done.
        DivergedError: the loss is no longer finite; `error.run` is the run before that.
    """
    choose_device(device)
    check_limits(steps, seconds)
    check_given(config, method)
    if resume and out is None:
        raise InputError("resume needs the folder of the run to go on with")
    if out is not None and not resume:
        check_free(user_path(out))  # before a capture
    options = SceneOptions(split_of(split))
    if resume and out is not None and split is None:
        options = read_record(user_path(out)).options
    source = scene if isinstance(scene, Scene) else _read(scene, options)
    if resume and out is not None:
        run = Run.resume(out, source, method=method)
    else:
        chosen = config or configured(preset, seed)
        if steps is not None:
            chosen = override(chosen, train={"steps": int(steps)})
        run = Run.begin(source, chosen, method=method, out=out, progress=progress)
    log.info("%s, %s back end, preset %s", device_name(), backend(), run.config.preset)
    try:
        run.train(steps=steps, seconds=seconds, progress=progress, on_report=on_report)
    except KeyboardInterrupt:
        log.warning("interrupted after step %d; run.train(...) goes on", run.state.step)
    return run


def _read(path: str | Path, options: SceneOptions) -> Scene:
    """The scene of a path; a video or photographs are captured first."""
    return load_scene(captured(Path(path)), **vars(options))
