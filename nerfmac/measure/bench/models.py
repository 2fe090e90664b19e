"""The vanilla model beside the hash model: quality over seconds of training, on one scene.

Vanilla is Mildenhall et al. 2020: two plain networks of eight layers of 256 units. The hash model
is Müller et al. 2022: a table of features at many resolutions, and networks of a few small layers.
They train one after the other. Compiling and evaluating do not count as training time.

An epoch is as many rays as the scene has training pixels. Pixels are drawn at random, so some are
seen twice in an epoch and others not yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from nerfmac.backend import current_device, memory_bytes
from nerfmac.backend.machine import machine
from nerfmac.common import checks
from nerfmac.config import Config
from nerfmac.config.presets import preset
from nerfmac.measure.bench.plot import plot_quality
from nerfmac.measure.bench.quality import HeldOutViews, followed
from nerfmac.measure.timing import Bar
from nerfmac.run import Run
from nerfmac.scenes import Scene
from nerfmac.training.goal import Goal

MODELS = ("vanilla", "hash")
REPORTS = 100
"""Least number of reports in a training: an evaluation is at most a hundredth of it late."""


class ModelPoint(NamedTuple):
    """A model's quality at some time of its training."""

    seconds: float  # of training
    step: int
    epochs: float  # rays so far / training pixels
    psnr: float  # dB, mean of the held-out views


class ModelCurve(NamedTuple):
    """One model's quality over its training."""

    points: list[ModelPoint]
    build_seconds: float  # spent compiling


class ModelComparison(NamedTuple):
    """All models by name, and what they were trained on."""

    about: dict[str, Any]
    models: dict[str, ModelCurve]

    def lines(self) -> Iterator[str]:
        """A table for people, line by line."""
        about = self.about
        yield (
            f"{about['scene']}, preset {about['preset']}, on {about['device_name']}; an epoch is "
            f"{about['training_pixels']} rays"
        )
        yield f"{'model':12}{'seconds':>10}{'steps':>10}{'epochs':>10}{'PSNR':>12}"
        for name, model in self.models.items():
            for seconds, step, epochs, psnr in model.points:
                yield f"{name:12}{seconds:10.2f}{step:10}{epochs:10.3g}{psnr:9.2f} dB"

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON values."""
        models = {
            name: {"build_seconds": built, "points": [point._asdict() for point in points]}
            for name, (points, built) in self.models.items()
        }
        return {**self.about, "models": models}


def model_configs(name: str = "auto") -> dict[str, Config]:
    """The configurations of `MODELS` by the preset `name`, for the current device.

    Raises `InputError` for an unknown preset.
    """
    device, memory = current_device(), memory_bytes()
    return {model: preset(name, device, memory, model=model) for model in MODELS}


def compare_models(
    scene: Scene,
    configs: Mapping[str, Config],
    *,
    seconds: float | Mapping[str, float] = 60.0,
    points: int = 16,
    test_views: int = 2,
) -> ModelComparison:
    """Train each model on `scene`, on the current device, and follow its quality; with a bar.

    Args:
        scene: with a "train" and a "test" split.
        configs: of the models, by their names; see `model_configs`.
        seconds: of training, for each model, or by the models' names.
        points: how often a model is evaluated; more densely at first.
        test_views: how many views of "test" are looked at, spread evenly.

    Raises:
        InputError: the scene has no test views, or a number is out of its range.
        DivergedError: the loss of a model is no longer finite.
    """
    limits = dict(seconds) if isinstance(seconds, Mapping) else dict.fromkeys(configs, seconds)
    for limit in limits.values():
        checks.number("seconds", limit, low=0.1)
    checks.number("points", points, low=1, whole=True)
    first = next(iter(configs.values()))
    views = HeldOutViews(scene, test_views, first.train.blend)
    models = {
        name: _trained(name, Run.begin(scene, config), limits[name], points, views)
        for name, config in configs.items()
    }
    about = {
        **machine(),
        "scene": scene.name,
        "preset": first.preset,
        "training_pixels": training_pixels(scene),
        "test_views": views.names,
        "seconds": limits,
    }
    return ModelComparison(about, models)


def plot_models(path: str | Path, comparison: ModelComparison) -> None:
    """Write a PNG of the models' quality over a logarithmic axis of time.

    Raises `InputError` as `plot_quality` does.
    """
    curves = {
        name: [(p.seconds, p.psnr) for p in model.points]
        for name, model in comparison.models.items()
    }
    title = f"{comparison.about['scene']}, {comparison.about['device_name']}"
    plot_quality(path, curves, title=title, log_time=True)


def training_pixels(scene: Scene) -> int:
    """How many pixels the training views have together."""
    return scene.views("train").cameras.pixels


def _trained(name: str, run: Run, seconds: float, points: int, views: HeldOutViews) -> ModelCurve:
    """Train one model for `seconds`, and evaluate it now and then."""
    pixels, found = training_pixels(run.pictures()), list[ModelPoint]()
    rays = before = 0.0
    goal = Goal(seconds=seconds, report_interval=seconds / REPORTS)
    with Bar(f"training {name}", seconds, "s") as bar:
        for report, is_due in followed(run, goal, points):
            now = run.state.train_seconds
            rays += report.rays_per_second * (now - before)
            before = now
            bar.reach(now)
            if is_due:
                found.append(ModelPoint(now, run.state.step, rays / pixels, views.psnr_of(run)))
    return ModelCurve(found, run.build_seconds)
