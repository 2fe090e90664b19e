"""`train` and `resume` train, save, and evaluate a run. The command `nerfmac train` uses the same
functions."""

import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from nerfmac.app.capture import captured
from nerfmac.app.inspection import training_findings
from nerfmac.app.run import configuration
from nerfmac.app.run.configuration import CONFIGURED, check_goal, check_method, config_of, limited
from nerfmac.app.run.folder import check_unused, read_scene
from nerfmac.app.run.outputs import Outputs
from nerfmac.app.run.run import Run
from nerfmac.app.run.training import Training
from nerfmac.app.scenes import Scene, builtin_scene_path, load_scene, read_again
from nerfmac.backend import backend, choose_device, device_name, in_words, is_out_of_memory
from nerfmac.common import InputError, log, user_path
from nerfmac.config import AUTO, Config, override
from nerfmac.config.scenes import DEFAULTS, SceneOptions
from nerfmac.ranks import LostRankError, current_ranks, join
from nerfmac.training.goal import Goal, Report
from nerfmac.training.measured import DivergedError
from nerfmac.training.method import Method
from nerfmac.training.resolve import BASE_PER_PROBE, PROBE_STEPS, for_pace, sizes

Result = TypeVar("Result")

PACE_STEPS = 32  # Number of steps for measuring the time of a step.


def train(
    scene: Scene | str | Path | None = None,
    config: Config | str = "auto",
    goal: Goal | None = None,
    *,
    method: Method = CONFIGURED,
    out: str | Path | None = None,
    on_report: Callable[[Report], None] | None = None,
    progress: bool = True,
) -> Run:
    """Train a field on a scene.

    Training uses the device that `choose_device` has set, by default the GPU if available, and the
    memory that `limit_memory` allows. An interruption (Ctrl-C) stops the training and returns the
    run, and `resume` continues its training.

    If `out` is given, this folder contains the run, `scalars.jsonl`, `metrics.json` with the
    quality of test views, and `preview.png`. Under `mlx.launch`, every rank calls `train`, and only
    the first rank writes files.

    Args:
        scene: A `Scene`, or a path to a scene folder, a video, or a folder of photos. For a video
            or photos, camera poses are estimated first. By default, the built-in scene. To load a
            path with other options, call `load_scene`.
        config: All settings, or the name of a preset: `tiny`, `small`, `base`, `big`, or `auto`.
            `auto` selects a preset that fits the device and its memory.
        goal: Limit of the training, such as `Goal(seconds=60)`. By default, the number of steps in
            the configuration.
        method: Custom field, sampler, or loss.
        out: Run folder, which must be absent or empty. The run is saved there at the start, every
            30 seconds, and at the end. "auto" selects `runs/SCENE-TIME`. If None, the run is only
            in memory.
        on_report: Callback for each `Report`.
        progress: Whether to show progress bars.

    Returns:
        The trained run.

    Raises:
        InputError: If an argument is invalid or the scene cannot be loaded.
        DivergedError: If the loss is not finite. `error.run` is the run with its last good state.
        LostRankError: If another rank has failed.

    Examples:
        >>> goal = nerfmac.Goal(steps=20)
        >>> run = nerfmac.train(scene, "tiny", goal, out="run", progress=False)
        >>> run.state.step
        20
        >>> nerfmac.Run.load("run").state.step
        20
    """
    start, goal = time.perf_counter(), Goal() if goal is None else goal
    choose_device()
    training = begin_training(scene, config, goal, method=method, out=out, progress=progress)
    return _train_interruptibly(training, goal, start, on_report, progress)


def resume(
    run: Run | str | Path,
    goal: Goal | None = None,
    *,
    scene: Scene | str | Path | None = None,
    method: Method = CONFIGURED,
    on_report: Callable[[Report], None] | None = None,
    progress: bool = True,
) -> Run:
    """Continue the training of a run, with its configuration and scene options.

    Args:
        run: Run folder, where the run is saved and its files are updated as by `train`, or a `Run`
            in memory, which is changed in memory.
        goal: Limit of the training, including earlier training. By default, the number of steps in
            the configuration.
        scene: Scene of the run, or its path, if its files have been moved.
        method: Method with the field and the sampler that the run was trained with. A `Run` in
            memory already has its method.
        on_report: Callback for each `Report`.
        progress: Whether to show progress bars.

    Returns:
        The trained run.

    Raises:
        InputError: If an argument is invalid, the scene cannot be loaded, or another process trains
            the run.
        DivergedError: If the loss is not finite. `error.run` is the run with its last good state.
        LostRankError: If another rank has failed.

    Examples:
        >>> run = nerfmac.train(scene, "tiny", nerfmac.Goal(steps=20), progress=False)
        >>> run = nerfmac.resume(run, nerfmac.Goal(steps=25), progress=False)
        >>> run.state.step
        25
    """
    start, goal = time.perf_counter(), Goal() if goal is None else goal
    choose_device()
    check_goal(goal)
    if isinstance(run, Run):
        training = Training(run)
    else:
        training = resume_training(run, scene, method=method, progress=progress)
    return _train_interruptibly(training, goal, start, on_report, progress)


def drained(steps: Generator[None, None, Result]) -> Result:
    """Run a generator to its end and return its result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return cast(Result, end.value)


def _train_interruptibly(
    training: Training,
    goal: Goal,
    start: float,
    on_report: Callable[[Report], None] | None,
    progress: bool,
) -> Run:
    try:
        train_and_evaluate(training, goal, Outputs(training, start, on_report, progress=progress))
    except KeyboardInterrupt:
        log.warning("interrupted after step %d; nerfmac.resume continues", training.run.state.step)
    return training.run


def begin_training(
    scene: Scene | str | Path | None,
    config: Config | str,
    goal: Goal,
    *,
    method: Method = CONFIGURED,
    out: str | Path | None = None,
    options: SceneOptions = DEFAULTS,
    progress: bool = True,
) -> Training:
    """Load a scene and create the training of a new run; see `train`. `options` are the options for
    loading `scene` from a path. Invalid arguments and a folder in use are refused before a capture
    starts."""
    config = config_of(config)
    check_goal(goal)
    check_method(method)
    is_first = join().is_first
    folder = None if out in (None, "auto") else user_path(str(out))
    if folder is not None and is_first:
        check_unused(folder)
    if not isinstance(scene, Scene):
        path = builtin_scene_path() if scene is None else captured(Path(scene))
        scene = load_scene(path, **vars(options))
    if out == "auto":
        folder = Path("runs") / f"{scene.name}-{time.strftime('%Y%m%d-%H%M%S')}"
    if goal.steps is not None:
        config = override(config, train={"steps": int(goal.steps)})
    progress = progress and is_first
    limit = limited(goal, config)
    run = drained(beginning(scene, config, limit, method=method, progress=progress))
    if folder is not None:
        _check_test_images(scene, progress=progress)
    # Only the first rank locks and writes files.
    training = Training.begin(run, folder) if folder is not None and is_first else Training(run)
    for line in training_findings(scene) if is_first else ():
        log.warning("%s", line)
    return training


def beginning(
    scene: Scene, config: Config, goal: Goal, *, method: Method = CONFIGURED, progress: bool = True
) -> Generator[None, None, Run]:
    """Create a run like `Run.begin`. If the preset is `auto` and the run has a time limit, measure
    the time of a step, and choose the settings for the number of steps that fit in this time. None
    is yielded between the parts of the measurement, and the run is returned. Without a limit, the
    run begins with small steps and grows."""
    has_ranks = current_ranks().size > 1
    if not (goal.has_end or has_ranks or method.has_components):
        config = for_pace(config, None)
    elif goal.seconds is None or has_ranks:
        config = for_pace(config)
    if config.train.grow_at:
        log.info(
            "training begins with %d samples in a step and a table of 2^%d "
            "entries, and continues with those of the preset base after %d steps; override with "
            "--preset base",
            *(config.march.max_samples, config.grid.log2_entries, config.train.grow_at),
        )
    run = Run.begin(scene, for_pace(config, PROBE_STEPS), method=method, progress=progress)
    if config.preset != AUTO:
        return run
    assert goal.seconds is not None
    steps = goal.seconds / (BASE_PER_PROBE * (yield from _seconds_per_step(run)))
    chosen = for_pace(config, steps)
    samples, entries = chosen.march.max_samples, chosen.grid.log2_entries
    log.info(
        "this device computes about %.0f steps of the preset base in %g s, so a step has %d "
        "samples, and a table 2^%d entries; override with --preset base",
        *(steps, goal.seconds, samples, entries),
    )
    config = override(run.config, **sizes(chosen))
    return run if config == run.config else Run.begin(scene, config, method=method)


def _seconds_per_step(run: Run) -> Generator[None, None, float]:
    """Measure the training time of a step on a copy of the run."""
    training = Training(run.copy())
    yield from training.prepare()
    for _ in training.fit(Goal(steps=PACE_STEPS)):
        yield
    return training.run.state.train_seconds / PACE_STEPS


def resume_training(
    folder: str | Path,
    scene: Scene | str | Path | None = None,
    *,
    method: Method = CONFIGURED,
    options: Mapping[str, Any] | None = None,
    progress: bool = True,
) -> Training:
    """Load the training of a run in a folder; see `resume`. `options` are scene options that must
    be those of the run."""
    check_method(method)
    folder = user_path(folder)
    record = read_scene(folder)
    _check_as_in(record, folder, options or {})
    if not isinstance(scene, Scene):
        scene = read_again(record, None if scene is None else captured(Path(scene)))
    is_first = join().is_first
    if is_first:
        training = Training.resume(folder, scene, method=method)
    else:
        training = Training(Run.load(folder, scene, method=method))
    run = training.run
    configuration.check_memory(run.model, scene)
    _check_test_images(scene, progress=progress and is_first)
    return training


def train_and_evaluate(training: Training, goal: Goal, outputs: Outputs) -> None:
    """Train until a goal is reached. In a run folder, write the output files."""
    run = training.run
    goal = limited(goal, run.config)
    log.info("%s, %s backend, preset %s", device_name(), backend(), run.config.preset)
    with training.locked(), outputs.opened(), _explained(training, goal):
        before = run.state.step
        training.train(goal, progress=outputs.progress, on_report=outputs.add)
        if run.state.step > before or not outputs.are_complete:
            outputs.finish()


def _check_test_images(scene: Scene, *, progress: bool) -> None:
    """Decode the test images, to report an invalid image before training."""
    if scene.splits.get("test"):
        scene.views("test", progress=progress)


def _check_as_in(record: Scene, run: Path, requested: Mapping[str, Any]) -> None:
    """Raise `InputError` if a requested option differs from the option of the resumed run."""
    known = vars(record.options) | {"extent": record.extent}
    for option in requested:
        if requested[option] != known[option]:
            is_disabled = requested[option] is False
            flag = f"--{'no-' * is_disabled}{option.replace('_', '-')}"
            raise InputError(
                f"{flag} sets {option} to {requested[option]}, but the run {run} uses "
                f"{known[option]}; remove the option to resume the run, or start a new run"
            )


@contextmanager
def _explained(training: Training, goal: Goal) -> Iterator[None]:
    """Add notes to an exception that ends the training: which step is saved in the run folder, and
    which command continues the training."""
    run, folder = training.run, training.folder
    try:
        yield
    except (KeyboardInterrupt, RuntimeError) as error:
        if folder is None:
            raise
        limits = {"--steps": goal.steps, "--seconds": goal.seconds}
        shown = {flag: np.format_float_positional(v, trim="-") for flag, v in limits.items() if v}
        flags = "".join(f" {flag} {value}" for flag, value in shown.items())
        again = f"run `nerfmac train --out {folder} --resume{flags}` to continue"
        # If a second Ctrl-C interrupts saving, the folder contains the previous checkpoint.
        saved = f"step {training.saved_step} is saved in {folder}"
        notes = [saved, again]
        if goal.progress(run.state) >= 1.0 and training.saved_step == run.state.step:
            notes = [f"the trained run is in {folder}; run `nerfmac eval {folder}` to evaluate it"]
        if isinstance(error, DivergedError):
            notes = [f"the last good state is in {folder}"]
        elif isinstance(error, RuntimeError) and is_out_of_memory(error):
            needed = configuration.needed_memory(run.model, run.images())
            notes = [saved, f"reduce {configuration.what_to_lower(needed)}"]
        elif isinstance(error, RuntimeError) and not isinstance(error, LostRankError):
            notes = notes if in_words(error) else []
        for note in notes:
            error.add_note(note)
        raise
