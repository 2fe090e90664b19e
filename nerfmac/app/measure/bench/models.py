"""Comparison of the quality of the vanilla model and the hash model over training time. Training
time excludes compilation and evaluation. An epoch has as many rays as the scene has training
pixels. Pixels are drawn at random with replacement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from nerfmac.app.measure.bench.quality import HeldOutViews, followed
from nerfmac.app.measure.timing import Bar
from nerfmac.app.run import Run
from nerfmac.app.scenes import Scene
from nerfmac.backend import current_device, memory_bytes
from nerfmac.backend.machine import machine
from nerfmac.common import checks
from nerfmac.common.files import appearing
from nerfmac.common.installing import needed
from nerfmac.config import Config
from nerfmac.config.presets import preset
from nerfmac.training.goal import Goal

MODELS = ("vanilla", "hash")
REPORTS = 100  # Approximate number of reports during a training. Evaluations wait for one.
TEST_VIEWS = 2  # Number of evenly spaced test views that are evaluated.


class ModelPoint(NamedTuple):
    """PSNR of a model at a given training time."""

    seconds: float  # training time in seconds
    step: int
    epochs: float  # number of rays so far divided by the number of training pixels
    psnr: float  # dB, mean of the held-out views


class ModelCurve(NamedTuple):
    """PSNR of a model over training time."""

    points: list[ModelPoint]
    build_seconds: float  # compilation time in seconds


class ModelComparison(NamedTuple):
    """Curves of all models, and a description of the machine and the scene."""

    about: dict[str, Any]
    models: dict[str, ModelCurve]

    def lines(self) -> Iterator[str]:
        """Yield the lines of the printed table."""
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
        """Return the comparison as JSON values."""
        models = {
            name: {"build_seconds": built, "points": [point._asdict() for point in points]}
            for name, (points, built) in self.models.items()
        }
        return {**self.about, "models": models}


def model_configs(name: str = "auto") -> dict[str, Config]:
    """Return the configuration of each model in `MODELS`, with the same preset. The preset `auto`
    fits the current device."""
    device, memory = current_device(), memory_bytes()
    return {model: preset(name, device, memory, model=model) for model in MODELS}


def compare_models(
    scene: Scene,
    configs: Mapping[str, Config],
    *,
    seconds: float | Mapping[str, float] = 60.0,
    points: int = 16,
) -> ModelComparison:
    """Train each model on a scene, and measure its PSNR at `points` evaluations (see
    `evaluation_times`).

    The training time in seconds is the same for all models or keyed by model name, as `configs`
    are.
    """
    limits = dict(seconds) if isinstance(seconds, Mapping) else dict.fromkeys(configs, seconds)
    for limit in limits.values():
        checks.number("seconds", limit, low=0.1)
    checks.number("points", points, low=1, whole=True)
    first = next(iter(configs.values()))
    views = HeldOutViews(scene, TEST_VIEWS, first.train.blend)
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
    """Plot the PSNR of the models to a PNG file, over the logarithm of the training time."""
    curves = {
        name: [(p.seconds, p.psnr) for p in model.points]
        for name, model in comparison.models.items()
    }
    title = f"{comparison.about['scene']}, {comparison.about['device_name']}"
    plot_quality(path, curves, title=title, log_time=True)


def training_pixels(scene: Scene) -> int:
    """Return the total number of pixels of all training views."""
    return scene.views("train").cameras.pixels


def _trained(name: str, run: Run, seconds: float, points: int, views: HeldOutViews) -> ModelCurve:
    """Train one model for `seconds` seconds, and evaluate it at the `evaluation_times`."""
    pixels, curve = training_pixels(run.images()), list[ModelPoint]()
    rays = before = 0.0
    goal = Goal(seconds=seconds, report_interval=seconds / REPORTS)
    with Bar(f"training {name}", seconds, "s") as bar:
        for report, is_due in followed(run, goal, points):
            now = run.state.train_seconds
            rays += report.rays_per_second * (now - before)
            before = now
            bar.reach(now)
            if is_due:
                curve.append(ModelPoint(now, run.state.step, rays / pixels, views.psnr_of(run)))
    return ModelCurve(curve, run.build_seconds)


def check_plot() -> None:
    """Raise `InputError` if matplotlib is not installed."""
    needed("matplotlib", "plot", "plots need")


def plot_quality(
    path: str | Path,
    curves: Mapping[str, Sequence[tuple[float, float]]],
    *,
    title: str = "",
    log_time: bool = False,
) -> None:
    """Plot points (seconds, PSNR in dB) of labeled `curves` to a PNG file."""
    check_plot()
    figure = needed("matplotlib.figure", "plot", "plots need").Figure((9.6, 6.0), layout="tight")
    axes = figure.subplots()
    axes.set(title=title, xlabel="seconds of training", ylabel="PSNR of held-out views, dB")
    if log_time:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
    axes.grid(color="#dedede")
    for name, points in curves.items():
        axes.plot(*zip(*points, strict=True), "o-", markersize=4, label=name)
    axes.legend(loc="lower right")
    with appearing(Path(path)) as partial:
        figure.savefig(partial, format="png")
