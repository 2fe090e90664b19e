"""`train` trains, saves, and evaluates a run. The command `nerfmac train` calls it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import fields
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
from nerfmac.app.scenes import Scene, builtin_scene_path, load_scene, read_again
from nerfmac.app.scenes.record import SceneRecord
from nerfmac.backend import backend, choose_device, device_name
from nerfmac.backend.memory import check_memory_limit, limit_memory
from nerfmac.backend.watchdog import in_words, is_out_of_memory
from nerfmac.common.checks import InputError
from nerfmac.common.files import user_path
from nerfmac.common.installing import needed
from nerfmac.config import Config, override
from nerfmac.config.scenes import SceneOptions
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
    on_end: Callable[[Run], None] | None = None,
    **options: Any,
) -> Run:
    """Train a field on a scene.

    If `out` is given, this folder contains the run, `scalars.jsonl`, `metrics.json` with the
    quality of test views, and `preview.png`. Under `mlx.launch`, every rank calls `train`, and only
    the first rank writes files.

    Args:
        scene: A `Scene`, or a path to a scene folder, a video, or a folder of photos. For a video
            or photos, camera poses are estimated first. By default, the built-in scene. If `resume`
            is True, the default is the scene of the run.
        steps: Total number of training steps of the run. By default, the number of steps in the
            configuration.
        seconds: Total training time of the run in seconds, instead of `steps`.
        preset: `tiny`, `small`, `base`, `big`, or `auto`. `auto` selects a preset that fits the
            device and its memory.
        device: `metal`, `cuda`, `cpu`, or `auto`. `auto` uses the GPU if available, unless the
            default device of MLX has been set to the CPU.
        seed: Seed of all random numbers. The default is 0.
        config: All settings, instead of `preset` and `seed`.
        method: Custom field, sampler, or loss.
        out: Run folder, which must be absent or empty. The run is saved there at the start, every
            30 seconds, and at the end. "auto" selects `runs/SCENE-TIME`. If None, the run is only
            in memory.
        resume: Whether to continue the training of the run in `out` with its configuration and
            scene options. If True, `preset`, `seed`, and `config` cannot be used.
        memory_limit: Maximum device memory for MLX in GiB. By default, all free memory.
        memory_fraction: Maximum fraction of the device memory for MLX, instead of `memory_limit`.
        tensorboard: Whether to also write TensorBoard events to `out/tensorboard`. This option
            requires `out`.
        all_views: Whether to evaluate all test views. By default, a CPU evaluates evenly spaced
            views with at most 16.8 million pixels, always the same ones. This option requires
            `out`.
        interruptible: Whether an interruption (Ctrl-C) stops the training and returns the run.
            `run.train(...)` can then resume the training. If False, an interruption raises
            `KeyboardInterrupt`.
        progress: Whether to show progress bars.
        on_report: Callback for each `Report`.
        on_end: Callback that is called with the run after training and before evaluation, if the
            run has a folder.
        options: Options for loading `scene` from a path; see `load_scene`.

    Returns:
        The trained run.

    Raises:
        InputError: If an argument is invalid or the scene cannot be loaded.
        DivergedError: If the loss is not finite. `error.run` is the run with its last good state.
        LostRankError: If another rank has failed.

    Examples:
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
    _check_outputs(out, tensorboard=tensorboard, all_views=all_views)
    is_first = join().is_first
    progress = progress and is_first
    source, folder = _scene_and_folder(scene, out, options, resume=resume, is_first=is_first)
    run_folder = folder if is_first else None  # Only the first rank locks and writes files.
    load = Run.resume if is_first else Run.load
    resumed = load(folder, source, method=method) if resume and folder else None
    limits = {} if steps is None else {"train": {"steps": int(steps)}}
    config = override(config or config_for_device(preset, seed or 0), **limits)
    config = resumed.config if resumed else config_for_scene(config, source, method)
    memory = check_memory(config, source, method, limit_memory(memory_limit, memory_fraction))
    if folder is not None and source.splits.get("test"):
        source.views("test", progress=progress)  # Reports an invalid image before training.
    run = resumed or Run.begin(source, config, method=method, out=run_folder, progress=progress)
    for line in training_findings(source) if is_first and not resume else ():
        log.warning("%s", line)
    log.info("%s, %s backend, preset %s", device_name(), backend(), config.preset)
    try:
        with (
            run.locked(),
            closing(Outputs(run, start, tensorboard, on_report)) as outputs,
            _explained(run, folder, Goal(steps, seconds), memory),
        ):
            before = run.state.step
            run.train(steps=steps, seconds=seconds, progress=progress, on_report=outputs.add)
            if run.state.step > before or all_views or not outputs.are_complete:
                outputs.finish(all_views=all_views, progress=progress, on_end=on_end)
    except KeyboardInterrupt:
        if not interruptible:
            raise
        log.warning("interrupted after step %d; run.train(...) continues", run.state.step)
    return run


def _check_effect(preset: str, seed: int | None, config: Config | None, *, resume: bool) -> None:
    """Raise `InputError` if a setting would have no effect."""
    given = {
        "preset (--preset)": preset != "auto",
        "seed (--seed)": seed is not None,
        "config (options such as --grid.levels)": config is not None,
    }
    names = [name for name, is_given in given.items() if is_given]
    if resume and names:
        raise InputError(
            f"a resumed run uses its configuration; remove {' and '.join(names)}, or start a new "
            "run without resume (--resume)"
        )
    if config is not None and len(names) > 1:
        raise InputError(
            f"config contains all settings, so {names[0]} has no effect; remove it, or change "
            "config with nerfmac.config.override"
        )


def _check_outputs(out: str | Path | None, *, tensorboard: bool, all_views: bool) -> None:
    """Raise `InputError` if an output requires a run folder or a package that is missing."""
    for name, is_requested in (("tensorboard", tensorboard), ("all_views", all_views)):
        if out is None and is_requested:
            raise InputError(f"{name} requires a run folder; pass out=FOLDER or out='auto'")
    if tensorboard:
        needed("tensorboardX", "tensorboard", "--tensorboard needs")


def _scene_and_folder(
    scene: Scene | str | Path | None,
    out: str | Path | None,
    options: Mapping[str, Any],
    *,
    resume: bool,
    is_first: bool,
) -> tuple[Scene, Path | None]:
    """Return the scene to train on, and the run folder (None for a run in memory). Invalid options
    and a folder in use are refused before a capture starts."""
    known = {option.name for option in fields(SceneOptions)}
    for name in options:
        if name not in known:
            raise TypeError(f"train() got an unexpected keyword argument {name!r}")
        if isinstance(scene, Scene):
            raise InputError(
                f"{name} has no effect on a scene that is already loaded; pass it to "
                "nerfmac.load_scene"
            )
    requested = SceneOptions.of(**options)
    is_named = out is not None and out != "auto"
    if resume and not is_named:
        raise InputError("resume requires the folder of the run; pass out=FOLDER, or --out FOLDER")
    folder = user_path(out) if out is not None and is_named else None
    record = read_record(folder) if folder is not None and resume else None
    if folder is not None and record is not None:
        _check_as_in(record, folder, {name: getattr(requested, name) for name in options})
    elif folder is not None and is_first:
        check_unused(folder)
    if not isinstance(scene, Scene):
        path = None if scene is None else captured(Path(scene))
        if record is not None:
            scene = read_again(record, path)
        else:
            scene = load_scene(path or builtin_scene_path(), **vars(requested))
    if out == "auto":
        folder = Path("runs") / f"{scene.name}-{time.strftime('%Y%m%d-%H%M%S')}"
    return scene, folder


def _check_as_in(record: SceneRecord, run: Path, requested: Mapping[str, Any]) -> None:
    """Raise `InputError` if a requested option differs from the option of the resumed run."""
    known = vars(record.options) | {"extent": record.extent}
    for option in requested:
        if requested[option] != known[option]:
            flag = "--no-masks" if option == "masks" else f"--{option.replace('_', '-')}"
            raise InputError(
                f"{flag} sets {option} to {requested[option]}, but the run {run} uses "
                f"{known[option]}; remove the option to resume the run, or start a new run"
            )


@contextmanager
def _explained(
    run: Run, folder: Path | None, goal: Goal, needed: Mapping[str, int]
) -> Iterator[None]:
    """Add notes to an exception that ends the training: which step is saved in the run folder, and
    which command continues the training."""
    limits = {"--steps": goal.steps, "--seconds": goal.seconds}
    shown = {flag: np.format_float_positional(v, trim="-") for flag, v in limits.items() if v}
    flags = "".join(f" {flag} {value}" for flag, value in shown.items())
    again = f"run `nerfmac train --out {folder} --resume{flags}` to continue"
    try:
        yield
    except (KeyboardInterrupt, RuntimeError) as error:
        # Only the first rank saves the run. If a second Ctrl-C interrupts saving, the folder
        # contains the previous checkpoint.
        step = run.state.step if run.folder is None else run.saved_step
        saved = f"step {step} is saved in {folder}"
        notes = [saved, again]
        if goal.progress(run.state) >= 1.0 and step == run.state.step:
            notes = [f"the trained run is in {folder}; run `nerfmac eval {folder}` to evaluate it"]
        if isinstance(error, DivergedError):
            notes = [f"the last good state is in {folder}"]
        elif isinstance(error, RuntimeError) and is_out_of_memory(error):
            notes = [saved, f"reduce {what_to_lower(needed)}"]
        elif isinstance(error, RuntimeError) and not isinstance(error, LostRankError):
            notes = notes if in_words(error) else []
        for note in notes if folder is not None else ():
            error.add_note(note)
        raise
