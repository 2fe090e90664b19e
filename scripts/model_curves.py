"""Compare the quality of the vanilla model and the hash model over training time.

    python scripts/model_curves.py lego_400 --seconds 10 --vanilla-seconds 600 --plot models.png

Training time excludes compilation and evaluation. An epoch has as many rays as the scene has
training pixels. Pixels are drawn at random with replacement.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import ceil, sqrt
from pathlib import Path
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np
from tqdm.auto import tqdm

from nerfmac.app.run import Run, Training
from nerfmac.app.scenes import Scene, builtin_scene_path, load_scene
from nerfmac.backend import choose_device, current_device, memory_bytes
from nerfmac.backend.machine import machine
from nerfmac.common import Float32Array, InputError, appearing, checks, needed, write_json
from nerfmac.config import Config
from nerfmac.config.presets import preset
from nerfmac.config.rendering import BACKGROUNDS
from nerfmac.geometry import Camera, over
from nerfmac.rendering.metrics import psnr
from nerfmac.training.goal import Goal, Report
from nerfmac.training.measured import DivergedError

MODELS = ("vanilla", "hash")
REPORTS = 100  # Approximate number of reports during a training. Evaluations wait for one.
TEST_VIEWS = 2  # Number of evenly spaced test views that are evaluated.


class Bar(tqdm):
    """Progress bar on standard error. At the end, the bar is erased. Use it as a context manager:
    `with Bar("training", 8, "steps") as bar: bar.reach(3)`."""

    def __init__(self, what: str, total: float, unit: str, *, disable: bool = False) -> None:
        """Show an empty progress bar for a `total` in a `unit`, such as "steps" or "s"."""
        form = "{desc} |{bar}| {n:.0f}/{total:.0f} {unit}, {remaining} left"
        options: dict[str, Any] = {"miniters": 1, "leave": False, "disable": disable}
        super().__init__(desc=what, total=total, unit=unit, bar_format=form, **options)

    def reach(self, done: float) -> None:
        """Move the bar to `done`, in the unit of the total. Values above the total fill the bar."""
        self.update(min(done, self.total) - self.n)


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
            for point in model.points:
                times = f"{point.seconds:10.2f}{point.step:10}{point.epochs:10.3g}"
                yield f"{name:12}{times}{point.psnr:9.2f} dB"

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
    `evaluation_times`). The training time in seconds is the same for all models or keyed by model
    name, as `configs` are."""
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


BACKGROUND = BACKGROUNDS["white"]  # sRGB color behind renderings and photos
VIEW_PIXELS = {"cpu": 2**12}
"""Maximum number of pixels to evaluate per view, keyed by device. On other devices, all pixels are
evaluated. On a CPU, rendering whole images with the vanilla model would take longer than the
training."""


class HeldOutViews:
    """Evenly spaced test views of a scene, in host memory, for measuring PSNR during training."""

    def __init__(self, scene: Scene, count: int, blend: str) -> None:
        """Select at most `count` evenly spaced views, and every nth pixel of every nth row of each
        view if it has more than `VIEW_PIXELS` pixels. `blend` is a value of the setting
        `train.blend`."""
        checks.number("test_views", count, low=1, whole=True)
        most_pixels = VIEW_PIXELS.get(current_device())
        views = scene.views("test")
        self.names: list[str] = []
        self.cameras: list[Camera] = []
        self._photos: list[Float32Array] = []
        for index in map(int, np.unique(np.linspace(0, len(views.names) - 1, count).astype(int))):
            photo = views.image(index).astype(mx.float32) / 255.0
            if photo.shape[2] == 4:
                photo = over(photo, mx.array(BACKGROUND), blend)
            camera, step = views.cameras[index], 1
            if most_pixels:
                step = ceil(sqrt(camera.lens.width * camera.lens.height / most_pixels))
            self.names.append(views.names[index])
            self.cameras.append(every_nth_pixel(camera, step))
            self._photos.append(np.array(photo)[step // 2 :: step, step // 2 :: step])

    def psnr(self, render: Callable[[Camera], Float32Array]) -> float:
        """Return the mean PSNR in dB of `render`, which renders sRGB images (h, w, 3) in [0, 1]."""
        pairs = zip(self.cameras, self._photos, strict=True)
        return float(np.mean([psnr(render(camera), photo) for camera, photo in pairs]))

    def psnr_of(self, run: Run) -> float:
        """Return the mean PSNR in dB of a run in its current state."""
        return self.psnr(lambda camera: run.renderer().render(camera, BACKGROUND).color)


def evaluation_times(seconds: float, points: int) -> list[float]:
    """Return the training times seconds * (i / points)^2 for i = 1, ..., points. Evaluations are
    more frequent at the beginning, when the quality changes fastest."""
    return [seconds * (index / points) ** 2 for index in range(1, points + 1)]


def followed(run: Run, goal: Goal, points: int) -> Iterator[tuple[Report, bool]]:
    """Train a run until a `goal` with a training time is reached, and yield each report with a
    flag: whether one of the `evaluation_times` has passed since the previous report."""
    times = evaluation_times(goal.seconds or 0.0, points)
    for report in Training(run).fit(goal):
        now = run.state.train_seconds
        later = [moment for moment in times if moment > now]
        yield report, len(later) < len(times)
        times = later


def every_nth_pixel(camera: Camera, step: int) -> Camera:
    """Return a camera for every `step`-th row and column. Its pixel (x, y) has the same ray as
    pixel (step x + step // 2, step y + step // 2) of `camera`."""
    lens, first = camera.lens, step // 2
    smaller = replace(
        lens,
        width=len(range(first, lens.width, step)),
        height=len(range(first, lens.height, step)),
        fl_x=lens.fl_x / step,
        fl_y=lens.fl_y / step,
        cx=(lens.cx - first - 0.5) / step + 0.5,
        cy=(lens.cy - first - 0.5) / step + 0.5,
    )
    return Camera(smaller, camera.pose)


def main() -> None:
    """Train the models, print the table, and write the plot and the JSON file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("scene", type=Path, nargs="?", help="by default the built-in scene")
    parser.add_argument("--seconds", type=float, default=60.0, help="training time of each model")
    parser.add_argument("--vanilla-seconds", type=float, help="training time of the vanilla model")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--preset", default="auto")
    parser.add_argument("--plot", type=Path, help="PNG file for the plot")
    parser.add_argument("--json", type=Path, help="JSON file for the measurements")
    arguments = parser.parse_args()
    if arguments.plot:
        check_plot()
    choose_device(arguments.device)
    seconds = dict.fromkeys(MODELS, arguments.seconds)
    seconds["vanilla"] = arguments.vanilla_seconds or arguments.seconds
    scene = load_scene(arguments.scene or builtin_scene_path())
    comparison = compare_models(scene, model_configs(arguments.preset), seconds=seconds)
    print("\n".join(comparison.lines()))
    if arguments.plot:
        plot_models(arguments.plot, comparison)
    if arguments.json:
        write_json(arguments.json, comparison.to_json())


if __name__ == "__main__":
    try:
        main()
    except (InputError, DivergedError) as error:
        print(f"model_curves.py: {error}", file=sys.stderr)
        sys.exit(2)
