"""Training and evaluation of several scenes with several seeds, each in a separate process.

`scripts/judge.py` uses this module.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from statistics import mean
from typing import Any

from nerfmac.app.run import Run, config_of
from nerfmac.app.run.outputs import protocol, surface_quality
from nerfmac.app.run.start import begin_training
from nerfmac.app.scenes import load_scene
from nerfmac.backend import choose_device
from nerfmac.common import InputError, user_path
from nerfmac.config import Config, override
from nerfmac.rendering.evaluation import evaluate
from nerfmac.training.goal import Goal
from nerfmac.training.held_out import aligned_views, optimize_poses
from nerfmac.training.measured import DivergedError

OPTIONS: dict[str, Callable[[Any], Any]] = {
    "downscale": int,
    "max_images": int,
    "split": str,
    "extent": float,
    "up": str,
}
"""Options of `nerfmac.load_scene` that a scene may have, with their types."""


@dataclass(frozen=True)
class TrialScene:
    """A scene to train on."""

    path: str
    name: str
    """Name of the scene in the table."""
    options: dict[str, Any]
    """Keyword arguments of `nerfmac.load_scene`."""
    has_alpha: bool


@dataclass(frozen=True)
class Trial:
    """Settings of one training and its evaluation."""

    scene: TrialScene
    seed: int
    seconds: float | None = None
    """Training time in seconds, or None to train for `steps` steps."""
    steps: int | None = None
    """Number of training steps. If both `steps` and `seconds` are None, the number in the preset is
    used."""
    preset: str = "auto"
    device: str = "auto"
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Settings that differ from the preset, keyed by dotted names such as "train.steps"."""
    background: str = "white"
    on_run: Callable[[Run], None] | None = None
    """Callback that receives the trained run. The callback is called in the process that trained
    the run."""


def with_settings(config: Config, settings: Mapping[str, Any]) -> Config:
    """Return `config` with some settings replaced. The keys are dotted names, such as
    "train.steps"."""
    values = config.to_json()
    for name, value in settings.items():
        part, _, key = name.rpartition(".")
        of_part = values.get(part) if part else values
        if not isinstance(of_part, dict) or key not in of_part:
            raise InputError(f"{name} is not a setting; expected a name such as train.steps")
        of_part[key] = value
    return Config.from_json(values)


def parsed(text: str) -> dict[str, Any]:
    """Parse the keys and values in an argument SCENE[:KEY=VALUE,...]. Raises `InputError` if the
    argument is invalid."""
    path, _, settings = text.partition(":")
    keys: dict[str, Any] = {"scene": path}
    for setting in filter(None, settings.split(",")):
        key, separator, value = setting.partition("=")
        if not separator:
            raise InputError(f"{text!r} has {setting!r}; expected KEY=VALUE")
        keys[key] = value
    return keys


def trial_scene(keys: Mapping[str, Any], options: Mapping[str, Any]) -> TrialScene:
    """Return the scene with these `keys`: "scene", its path, "name", and the keys in `OPTIONS`.

    The scene files are checked. `options` are default keyword arguments of `load_scene`. Raises
    `InputError` if the scene is invalid or has no test views.
    """
    known = ["scene", "name", *OPTIONS]
    if unknown := sorted(set(keys) - set(known)):
        raise InputError(f"a scene has {', '.join(unknown)}; expected {', '.join(known)}")
    if not keys.get("scene"):
        raise InputError(f"{dict(keys)} has no scene; expected a path at the key 'scene'")
    own = {}
    for key, convert in OPTIONS.items():
        if key in keys:
            try:
                own[key] = convert(keys[key])
            except ValueError:
                name = getattr(convert, "__name__", "a number")
                message = f"{key} is {keys[key]!r}; expected {name}"
                raise InputError(message) from None
    path, options = user_path(keys["scene"]).resolve(), {**options, **own}
    scene = load_scene(path, **options)
    scene.cameras("test")  # without held-out views, no metric can be computed
    return TrialScene(str(path), keys.get("name", path.name), dict(options), scene.has_alpha)


def check_names(scenes: Iterable[TrialScene]) -> None:
    """Raise `InputError` if there are no scenes or two scenes have the same name."""
    names = [scene.name for scene in scenes]
    if not names or len(set(names)) < len(names):
        raise InputError(
            f"scenes are {names}; expected at least one, with names that differ, as in SCENE:name=A"
        )


def trained(trial: Trial) -> dict[str, Any]:
    """Train a run, evaluate it on all test views, and return the metrics as JSON values."""
    began = time.perf_counter()
    scene = load_scene(trial.scene.path, **trial.scene.options)
    choose_device(trial.device)
    config = with_settings(override(config_of(trial.preset), seed=trial.seed), trial.changes)
    goal, has_diverged = Goal(trial.steps, trial.seconds), False
    training = begin_training(scene, config, goal, progress=False)
    run = training.run
    try:
        training.train(goal, progress=False)
    except DivergedError:
        has_diverged = True
    trained_at = time.perf_counter()
    views = run.evaluate("test", trial.background, progress=False)
    if trial.on_run:
        trial.on_run(run)
    return {
        "seed": trial.seed,
        "psnr": views.psnr,
        "worst_view": min(view.psnr for view in views),
        "ssim": views.ssim,
        **({} if trial.scene.has_alpha else with_and_without_optimized_cameras(run, trial)),
        **surface_quality(run, "test", "train", progress=False),
        "steps": run.state.step,
        "seconds": run.state.train_seconds,
        "start_seconds": trained_at - began - run.state.train_seconds,
        "diverged": has_diverged,
        "preset": run.config.preset,
        "options": trial.scene.options,
        "test_views": len(views),
        "protocol": protocol(run, "test", trial.background),
    }


def with_and_without_optimized_cameras(run: Run, trial: Trial) -> dict[str, float]:
    """Return the PSNR of the test views before and after their cameras have been optimized on their
    own images. The field does not change.

    If training refines poses, `Run.evaluate` optimizes these cameras. A comparison with a run that
    does not refine poses is fair only if both runs are measured in the same way.
    """
    given = aligned_views(run.model, run.state, run.images().views("test", progress=False))
    optimized = optimize_poses(run.model, run.state, given, progress=False)
    light = trial.background, run.config.train.blend
    return {
        name: mean(view.psnr for view in evaluate(run.renderer, views, *light))
        for name, views in (("psnr_given", given), ("psnr_optimized", optimized))
    }


def outcomes(trials: Iterable[Trial]) -> Iterator[tuple[Trial, dict[str, Any]]]:
    """Run the trials one after the other, and yield each trial with the JSON values of `trained`.

    Raises `InputError` if the process of a training is terminated, for example because of
    insufficient memory.
    """
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, max_tasks_per_child=1) as pool:
        for trial in trials:
            try:
                yield trial, pool.submit(trained, trial).result()
            except BrokenProcessPool as error:
                raise InputError(
                    f"the training of {trial.scene.name} with seed {trial.seed} ended its process, "
                    "probably out of memory; try a smaller --preset or a larger --downscale"
                ) from error
