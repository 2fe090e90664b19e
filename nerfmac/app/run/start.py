"""`train`: from a scene to a trained, saved and evaluated run; `nerfmac train` calls it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from nerfmac.app.capture import captured
from nerfmac.app.inspection import training_findings
from nerfmac.app.run.configuration import (
    CONFIGURED,
    check_limits,
    check_memory,
    check_types,
    config_for_device,
    config_for_scene,
    what_to_lower,
)
from nerfmac.app.run.folder import check_unused, read_record
from nerfmac.app.run.outputs import Outputs
from nerfmac.app.run.run import Run
from nerfmac.app.run.scalars import check_tensorboard
from nerfmac.app.scenes import Scene, builtin_scene_path, load_scene, recorded_path
from nerfmac.app.scenes.options import SceneOptions, split_of, up_of
from nerfmac.app.scenes.record import SceneRecord
from nerfmac.backend import backend, choose_device, device_name
from nerfmac.backend.faults import in_words, is_out_of_memory
from nerfmac.backend.memory import check_memory_limit, limit_memory
from nerfmac.common.checks import InputError
from nerfmac.common.files import user_path
from nerfmac.config import Config, override
from nerfmac.ranks import LostRankError, join
from nerfmac.training.goal import Goal, Report
from nerfmac.training.measured import DivergedError
from nerfmac.training.method import Method

log = logging.getLogger("nerfmac")


def train(
    scene: Scene | str | Path | None = None,
    *,
    steps: int | None = None,
    seconds: float | None = None,
    preset: str = "auto",
    device: str = "auto",
    seed: int | None = None,
    config: Config | None = None,
    method: Method = CONFIGURED,
    out: str | Path | None = None,
    resume: bool = False,
    memory_limit: float | None = None,
    memory_fraction: float | None = None,
    tensorboard: bool = False,
    all_views: bool = False,
    interruptible: bool = True,
    progress: bool = True,
    on_report: Callable[[Report], None] | None = None,
    on_end: Callable[[Run, float], None] | None = None,
    **options: Any,
) -> Run:
    """Train a field on a scene.

    With `out`, the folder holds the run, `scalars.jsonl`, `metrics.json` with the quality of test
    views, and `preview.png`. These take at most as long as the training, plus half a minute.

    Args:
        scene: a `Scene`, or the path of one; a video or a folder of photos is captured first.
            By default the built-in scene or, with `resume`, the run's own.
        steps, seconds: end of the training, in total steps or total seconds of training of the run;
            by default the configuration's steps.
        preset: `tiny`, `small`, `base`, `big`, or `auto`, which chooses by device and memory.
        device: `metal`, `cuda` or `cpu`; `auto` takes the GPU if there is one, unless you have
            made the CPU MLX's default device.
        seed: seed of all random numbers; by default 0.
        config: all settings, in place of `preset` and `seed`.
        method: a field, a sampler or a loss of your own.
        out: an absent or empty folder to save the run in: at the start, every half minute and at
            the end. "auto": `runs/SCENE-TIME`. None: the run stays in memory.
        resume: train the run in `out` further, with its own configuration and scene options;
            `preset`, `seed` and `config` cannot be given then.
        memory_limit, memory_fraction: device memory that MLX may take, in GiB or as a fraction; by
            default all that is free.
        tensorboard: with `out`, write events to `out/tensorboard` too.
        all_views: with `out`, evaluate every test view, however long it takes.
        interruptible: an interruption (Ctrl-C) ends the training and returns the run so far, and
            `run.train(...)` continues it. False: it raises `KeyboardInterrupt`.
        progress: show a bar.
        on_report: called with each `Report`.
        on_end: called after the training of a run with a folder and before its evaluation, with
            the run and the seconds left.
        options: how to read `scene`, if it is a path; see `load_scene`.

    Under `mlx.launch` every rank calls it, and the first rank alone writes.

    Raises:
        InputError: the request cannot be met.
        DivergedError: the loss is no longer finite; `error.run` is the run before that.
        LostRankError: another rank is gone.

    >>> run = nerfmac.train(scene, preset="tiny", steps=20, out="run", progress=False)
    >>> run.state.step
    20
    >>> nerfmac.Run.load("run").state.step
    20
    """
    start = time.perf_counter()
    choose_device(device)
    check_limits(steps, seconds)
    check_memory_limit(memory_limit, memory_fraction)
    check_types(config, method)
    _check_effect(preset, seed, config, resume=resume)
    _check_folder(out, tensorboard=tensorboard, all_views=all_views)
    check_tensorboard(needed=tensorboard)
    is_first = join().is_first
    progress = progress and is_first
    source, folder = _scene_and_folder(scene, out, options, resume=resume, is_first=is_first)
    own = folder if is_first else None  # the first rank alone locks and writes
    load = Run.resume if is_first else Run.load
    resumed = load(folder, source, method=method) if resume and folder else None
    config = config or config_for_device(preset, seed or 0)
    config = resumed.config if resumed else _config(config, steps, source, method)
    needed = check_memory(config, source, method, limit_memory(memory_limit, memory_fraction))
    if folder is not None and source.splits.get("test"):
        source.views("test", progress=progress)  # a broken image is found before training
    run = resumed or Run.begin(source, config, method=method, out=own, progress=progress)
    for line in training_findings(source) if is_first and not resume else ():
        log.warning("%s", line)
    log.info("%s, %s back end, preset %s", device_name(), backend(), config.preset)
    try:
        with (
            run.locked(),
            closing(Outputs(run, start, tensorboard, on_report)) as outputs,
            _explained(run, folder, Goal(steps, seconds), needed),
        ):
            run.train(steps=steps, seconds=seconds, progress=progress, on_report=outputs.add)
            outputs.finish(all_views=all_views, progress=progress, on_end=on_end)
    except KeyboardInterrupt:
        if not interruptible:
            raise
        log.warning("interrupted after step %d; run.train(...) goes on", run.state.step)
    return run


def _check_effect(preset: str, seed: int | None, config: Config | None, *, resume: bool) -> None:
    """Raise `InputError` for settings that cannot take effect."""
    given = {
        "preset (--preset)": preset != "auto",
        "seed (--seed)": seed is not None,
        "config (flags such as --grid.levels)": config is not None,
    }
    names = [name for name, is_given in given.items() if is_given]
    if resume and names:
        raise InputError(
            f"a resumed run continues with its own configuration: remove {' and '.join(names)}, or "
            "begin another run without resume (--resume)"
        )
    if config is not None and len(names) > 1:
        raise InputError(
            f"config contains all settings, so {names[0]} has no effect; remove it, or change "
            "config with nerfmac.config.override"
        )


def _check_folder(out: str | Path | None, **outputs: bool) -> None:
    """Raise `InputError` for outputs that are asked for and have no folder to go to."""
    asked = [name for name, is_asked in outputs.items() if is_asked]
    if out is None and asked:
        raise InputError(f"{asked[0]} needs a folder to write to: out=FOLDER, or out='auto'")


def _scene_and_folder(
    scene: Scene | str | Path | None,
    out: str | Path | None,
    options: Mapping[str, Any],
    *,
    resume: bool,
    is_first: bool,
) -> tuple[Scene, Path | None]:
    """The scene to train on, and the run's folder, None for a run in memory.

    Raises `InputError`; for bad `options` or a folder in use, before anything is captured.
    """
    known = {option.name for option in fields(SceneOptions)}
    for name in options:
        if name not in known:
            raise TypeError(f"train() got an unexpected keyword argument {name!r}")
        if isinstance(scene, Scene):
            raise InputError(f"{name} says how a scene's files are read, but the scene is read")
    read = {
        "split": split_of(options.get("split")),
        "up": up_of(options.get("up")),
    }
    asked = SceneOptions(**{**options, **read})
    is_named = out is not None and out != "auto"
    if resume and not is_named:
        raise InputError(
            "resume needs the folder of the run to go on with: out=FOLDER, or --out FOLDER"
        )
    folder = user_path(out) if out is not None and is_named else None
    path = builtin_scene_path
    if folder is not None and resume:
        record = read_record(folder)
        _check_as_in(record, folder, {name: getattr(asked, name) for name in options})
        asked, path = record.options, partial(recorded_path, record)
    elif folder is not None and is_first:
        check_unused(folder)
    if not isinstance(scene, Scene):
        scene = load_scene(path() if scene is None else captured(Path(scene)), **vars(asked))
    if out == "auto":
        folder = Path("runs") / f"{scene.name}-{time.strftime('%Y%m%d-%H%M%S')}"
    return scene, folder


def _check_as_in(record: SceneRecord, run: Path, asked: Mapping[str, Any]) -> None:
    """Raise `InputError` if an option in `asked` differs from that of the resumed run."""
    known = vars(record.options) | {"extent": record.extent}
    for option in asked:
        if asked[option] != known[option]:
            raise InputError(
                f"{option} is {asked[option]}, and {known[option]} in the run {run}: leave it "
                "out to go on with that, or begin another run"
            )


def _config(config: Config, steps: int | None, scene: Scene, method: Method) -> Config:
    """`config` for training `steps` steps on the `scene`."""
    if steps is not None:
        config = override(config, train={"steps": int(steps)})
    return config_for_scene(config, scene, method)


@contextmanager
def _explained(
    run: Run, folder: Path | None, goal: Goal, needed: Mapping[str, int]
) -> Iterator[None]:
    """Context manager that adds notes to an exception that ends a training to the `goal`.

    They say what is saved in `folder` and how to go on. `needed` is the run's `needed_memory`.
    """
    limits = {"--steps": goal.steps, "--seconds": goal.seconds}
    shown = {flag: np.format_float_positional(v, trim="-") for flag, v in limits.items() if v}
    flags = "".join(f" {flag} {value}" for flag, value in shown.items())
    again = f"`nerfmac train --out {folder} --resume{flags}` goes on"
    try:
        yield
    except (KeyboardInterrupt, RuntimeError) as error:
        # The first rank saves; a second Ctrl-C stops it, and the checkpoint before stays.
        step = run.state.step if run.folder is None else run.saved_step
        saved = f"step {step} is saved in {folder}"
        notes = [saved, again]
        if goal.progress(run.state) >= 1.0 and step == run.state.step:
            notes = [f"the trained run is in {folder}; `nerfmac eval {folder}` says how good it is"]
        if isinstance(error, DivergedError):
            notes = [f"the last good state is in {folder}"]
        elif isinstance(error, RuntimeError) and is_out_of_memory(error):
            notes = [saved, f"lower {what_to_lower(needed)}"]
        elif isinstance(error, RuntimeError) and not isinstance(error, LostRankError):
            notes = notes if in_words(error) else []
        for note in notes if folder is not None else ():
            error.add_note(note)
        raise
