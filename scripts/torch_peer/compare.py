"""Comparison of nerfmac with the PyTorch implementation, on the same scene and in one process.

Both implementations start from the same parameters and train for the same time. The implementations
alternate every second, so that other programs slow down both equally. Test views are rendered
during the training to measure quality over training time. The step time is measured in the second
half of the training and includes occupancy updates. Latencies are measured with the trained fields.
The training time excludes compiling and rendering.

On a CPU, the machine should be idle. The threads of PyTorch wait for each other after every
operation, so busy cores slow down PyTorch several times more than nerfmac.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np
from model_curves import Bar, HeldOutViews, evaluation_times

from nerfmac.app.measure.timing import Timing
from nerfmac.app.scenes import Scene
from nerfmac.backend import backend, device_name
from nerfmac.common import checks
from nerfmac.config import Config, override
from nerfmac.geometry import Camera, Rays, camera_rays
from nerfmac.training.resolve import SceneFacts, resolve
from torch_peer.implementations import Implementation, Nerfmac, Torch, Window

SLICE_SECONDS = 1.0
"""Time in seconds for which one implementation trains before the other one continues."""

BATCH = 4096
"""Maximum number of rays for the latency of many rays. A view with fewer pixels has fewer rays."""

CALLS = 30
"""Number of timed calls. The latency is their median time."""

WARM_UP_CALLS = 3


class Point(NamedTuple):
    """Quality at a given training time."""

    seconds: float  # of training
    step: int
    psnr: float  # dB, mean of the test views


@dataclass(frozen=True)
class Result:
    """Measurements of one implementation."""

    name: str
    step: Timing  # time of a training step
    samples_per_second: float  # in training
    batch: Timing  # time from many rays to their colors
    ray: Timing  # time from a single ray to its color
    curve: tuple[Point, ...]
    build_seconds: float  # compilation time in seconds

    def to_json(self) -> dict[str, Any]:
        """Return the measurements as JSON values."""
        return {
            "step_ms": self.step._asdict(),
            "samples_per_second": self.samples_per_second,
            "batch_ms": self.batch._asdict(),
            "ray_ms": self.ray._asdict(),
            "curve": [point._asdict() for point in self.curve],
            "build_seconds": self.build_seconds,
        }


@dataclass(frozen=True)
class Comparison:
    """Results of both implementations, with the machine and the scene."""

    about: dict[str, Any]
    nerfmac: Result
    torch: Result

    def lines(self) -> Iterator[str]:
        """Yield the lines of the printed table. A ratio above 1 means that nerfmac is faster."""
        results = self.nerfmac, self.torch
        yield ", ".join(f"{name} {value}" for name, value in self.about.items() if value)
        yield f"{'':18}" + "".join(f"{r.name:>12}{'':17}" for r in results) + f"{'ratio':>8}"
        for name, part in (
            ("training step", "step"),
            (f"{self.about['batch']} rays", "batch"),
            ("1 ray", "ray"),
        ):
            ours, theirs = (getattr(result, part) for result in results)
            ratio = theirs.median / ours.median
            yield f"{name:18}{_cell(ours)}{_cell(theirs)}{ratio:7.2f}x"
        rates = [result.samples_per_second for result in results]
        cells = "".join(f"{1e-3 * rate:8.0f} k/s{'':17}" for rate in rates)
        yield f"{'training samples':18}{cells}{rates[0] / max(rates[1], 1e-9):7.2f}x"
        for ours, theirs in zip(self.nerfmac.curve, self.torch.curve, strict=True):
            cells = "".join(
                f"{each.psnr:9.2f} dB{f'step {each.step}':>15}  " for each in (ours, theirs)
            )
            yield f"{f'after {ours.seconds:.1f} s':18}{cells}{ours.psnr - theirs.psnr:+6.2f} dB"

    def curves(self) -> dict[str, list[tuple[float, float]]]:
        """Return both curves for `plot_quality`, keyed by legend label."""
        return {
            f"{result.name}, {result.step.median:.3g} ms a step": [
                (point.seconds, point.psnr) for point in result.curve
            ]
            for result in (self.nerfmac, self.torch)
        }

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as JSON values, with times in milliseconds."""
        results = {result.name: result.to_json() for result in (self.nerfmac, self.torch)}
        return {**self.about, **results}


def compare(
    scene: Scene,
    config: Config,
    *,
    seconds: float = 60.0,
    points: int = 8,
    test_views: int = 2,
    compiled: bool = True,
) -> Comparison:
    """Train both implementations on `scene` on the current device, and measure speed and quality.

    Args:
        scene: Scene with the splits "train" and "test".
        config: Configuration of both implementations.
        seconds: Training time of each implementation in seconds.
        points: Number of quality evaluations. Evaluations are more frequent at the beginning.
        test_views: Number of test views to evaluate, evenly spaced.
        compiled: Whether the PyTorch implementation uses `torch.compile`.

    Raises:
        InputError: If PyTorch is not installed or does not support the device, the scene has no
            test views, or a number is out of range.
        DivergedError: If the loss of nerfmac is not finite.
    """
    checks.number("seconds", seconds, low=0.1)
    checks.number("points", points, low=1, whole=True)
    facts = SceneFacts(scene.bounds, cameras=scene.cameras("train"))
    config = override(config, grid=resolve(config, facts).grid)
    views = HeldOutViews(scene, test_views, config.train.blend)
    peer = Torch(config, scene, seconds, compiled=compiled)
    both: tuple[Implementation, Implementation] = Nerfmac(config, scene, seconds), peer
    windows, curves = _train(both, evaluation_times(seconds, points), views)
    rays, one = _some_rays(views.cameras[0])
    batch, ray = _latencies(both, rays), _latencies(both, one)
    ours, theirs = (
        Result(
            each.name,
            Timing.of([window.seconds / window.steps for window in windows[each.name]]),
            float(np.median([window.samples_per_second for window in windows[each.name]])),
            batch[each.name],
            ray[each.name],
            tuple(curves[each.name]),
            each.build_seconds,
        )
        for each in both
    )
    about = _about(scene, config) | {"seconds": seconds, "batch": len(rays.origin)}
    return Comparison(about | {"torch": peer.version, "note": peer.note}, ours, theirs)


def _about(scene: Scene, config: Config) -> dict[str, Any]:
    return {
        "machine": device_name(),
        "back end": backend(),
        "mlx": version("mlx"),
        "scene": scene.name,
        "preset": config.preset,
    }


def _train(
    both: Sequence[Implementation], moments: Sequence[float], views: HeldOutViews
) -> tuple[dict[str, list[Window]], dict[str, list[Point]]]:
    """Train both implementations alternately until the last of `moments`, and evaluate at each of
    them.

    Returns, for each implementation, the windows of the second half of the training and the quality
    curve.
    """
    seconds = moments[-1]
    windows: dict[str, list[Window]] = {each.name: [] for each in both}
    curves: dict[str, list[Point]] = {each.name: [] for each in both}
    with Bar("training", len(both) * seconds, "s") as bar:
        while (current := min(both, key=lambda each: each.seconds)).seconds < seconds:
            until = min(current.seconds + SLICE_SECONDS, seconds)
            while current.seconds < until:
                window, curve = current.train(), curves[current.name]
                if current.seconds > seconds / 2:
                    windows[current.name].append(window)
                due = sum(moment <= current.seconds for moment in moments) - len(curve)
                if due > 0:
                    # Training that passes several moments at once is evaluated once for all.
                    point = Point(current.seconds, current.step, views.psnr(current.render))
                    curve += due * [point]
                bar.reach(sum(min(each.seconds, seconds) for each in both))
    return windows, curves


def _some_rays(camera: Camera) -> tuple[Rays, Rays]:
    """Return up to `BATCH` rays that are evenly spread over a view, and the ray through its
    middle."""
    rays = camera_rays(camera)
    pixels = len(rays.origin)
    spread = np.unique(np.linspace(0, pixels - 1, BATCH).astype(np.int32))
    middle = np.array([pixels // 2 + camera.lens.width // 2], np.int32)
    some, one = (rays.at(mx.array(each)) for each in (spread, middle))
    return some, one


def _latencies(both: Sequence[Implementation], rays: Rays) -> dict[str, Timing]:
    """Measure the time from rays to their colors. The calls of the implementations alternate."""
    tracers = {each.name: each.tracer(rays) for each in both}
    spent: dict[str, list[float]] = {name: [] for name in tracers}
    for call in range(WARM_UP_CALLS + CALLS):
        for name, trace in tracers.items():
            start = time.perf_counter()
            trace()
            if call >= WARM_UP_CALLS:
                spent[name].append(time.perf_counter() - start)
    return {name: Timing.of(times) for name, times in spent.items()}


def _cell(timing: Timing) -> str:
    spread = f"({timing.low:.2f} to {timing.high:.2f})"
    return f"{timing.median:9.2f} ms {spread:>18} "
