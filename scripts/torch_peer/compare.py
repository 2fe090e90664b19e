"""nerfmac beside its peer in PyTorch: the same scene and recipe, in one process, in turns.

Both start from the same parameters and train for the same number of seconds, a second each at a
time, so that whatever else the machine does meets both. In between, test views are rendered:
quality over seconds of training. Time per step is that of the second half of the training,
occupancy updates included; latencies are those of the trained fields. Compiling and rendering are
no training time.

On a CPU the machine should be quiet: PyTorch's threads wait for each other after every operation,
so on cores that others use too it loses several times more than nerfmac does.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np

from nerfmac import checks
from nerfmac.backend import backend, device_name
from nerfmac.bench.progress import Bar
from nerfmac.bench.timing import Timing, quartiles
from nerfmac.config import Config
from nerfmac.geometry.cameras import Camera
from nerfmac.geometry.colour import over
from nerfmac.geometry.rays import Rays, camera_rays
from nerfmac.rendering.metrics import psnr
from nerfmac.rendering.renderer import Picture
from nerfmac.scenes import Scene, Views
from torch_peer.contestants import BACKGROUND, Contestant, Nerfmac, TorchSide, Window

STRETCH = 1.0
"""Seconds that one side trains before it is the other's turn."""

BATCH = 4096
"""Rays of the larger latency; fewer where a view has fewer pixels."""

CALLS = 30
"""Calls that a latency is the median of."""


class Point(NamedTuple):
    """Quality at some time."""

    seconds: float  # of training
    step: int
    psnr: float  # dB, mean of the test views


@dataclass(frozen=True)
class Side:
    """What one of the two did."""

    name: str
    step: Timing  # of a training step
    samples_per_second: float  # in training
    batch: Timing  # from many rays to their colours
    ray: Timing  # the same of a single ray
    curve: tuple[Point, ...]
    build_seconds: float  # spent compiling

    def to_json(self) -> dict[str, Any]:
        """The record as JSON values."""
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
    """Both, and what they did it on."""

    about: dict[str, Any]
    nerfmac: Side
    torch: Side

    def lines(self) -> Iterator[str]:
        """A table for people, line by line; a ratio says how many times faster nerfmac is."""
        sides = self.nerfmac, self.torch
        yield ", ".join(f"{name} {value}" for name, value in self.about.items() if value)
        yield f"{'':18}" + "".join(f"{side.name:>12}{'':17}" for side in sides) + f"{'ratio':>8}"
        for name, part in (
            ("training step", "step"),
            (f"{self.about['batch']} rays", "batch"),
            ("1 ray", "ray"),
        ):
            ours, theirs = (getattr(side, part) for side in sides)
            ratio = theirs.median / ours.median
            yield f"{name:18}{_cell(ours)}{_cell(theirs)}{ratio:7.2f}x"
        rates = [side.samples_per_second for side in sides]
        cells = "".join(f"{1e-3 * rate:8.0f} k/s{'':17}" for rate in rates)
        yield f"{'training samples':18}{cells}{rates[0] / max(rates[1], 1e-9):7.2f}x"
        for ours, theirs in zip(self.nerfmac.curve, self.torch.curve, strict=True):
            cells = "".join(
                f"{each.psnr:9.2f} dB{f'step {each.step}':>15}  " for each in (ours, theirs)
            )
            yield f"{f'after {ours.seconds:.1f} s':18}{cells}{ours.psnr - theirs.psnr:+6.2f} dB"

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON values, times in milliseconds."""
        sides = {side.name: side.to_json() for side in (self.nerfmac, self.torch)}
        return {**self.about, **sides}


def compare(
    scene: Scene,
    config: Config,
    *,
    seconds: float = 60.0,
    points: int = 8,
    test_views: int = 2,
    compiled: bool = True,
) -> Comparison:
    """Train both on `scene`, on the current device, for `seconds` each; see the module's text.

    Args:
        scene: with a "train" and a "test" split.
        config: of both.
        seconds: of training, for each.
        points: how often quality is looked at; more densely at first.
        test_views: how many views of "test" are looked at, spread evenly.
        compiled: whether the peer uses `torch.compile`.

    Raises:
        InputError: PyTorch is absent or lacks the device; the scene has no test views; a number
            is out of its range.
    """
    checks.number("seconds", seconds, low=0.1)
    checks.number("points", points, low=1, whole=True)
    checks.number("test_views", test_views, low=1, whole=True)
    targets = _targets(scene.views("test"), test_views, config.train.blend)
    peer = TorchSide(config, scene, seconds, compiled=compiled)
    sides: tuple[Contestant, Contestant] = Nerfmac(config, scene, seconds), peer
    windows, curves = _trained(sides, seconds, points, targets)
    rays, one = _some_rays(targets[0][0])
    batch, ray = _latencies(sides, rays), _latencies(sides, one)
    done = [
        Side(
            side.name,
            quartiles([each.seconds / each.steps for each in windows[side.name]]),
            float(np.median([each.samples_per_second for each in windows[side.name]])),
            batch[side.name],
            ray[side.name],
            tuple(curves[side.name]),
            side.build_seconds,
        )
        for side in sides
    ]
    about = {
        "machine": device_name(),
        "back end": backend(),
        "mlx": version("mlx"),
        "torch": peer.version,
        "note": peer.note,
        "scene": scene.name,
        "preset": config.preset,
        "seconds": seconds,
        "batch": len(rays.origin),
    }
    return Comparison(about, done[0], done[1])


def _trained(
    sides: Sequence[Contestant],
    seconds: float,
    points: int,
    targets: Sequence[tuple[Camera, Picture]],
) -> tuple[dict[str, list[Window]], dict[str, list[Point]]]:
    """Train in turns; the second half's windows and the curve, of each side."""
    marks = [seconds * (index / points) ** 2 for index in range(1, points + 1)]
    windows: dict[str, list[Window]] = {side.name: [] for side in sides}
    curves: dict[str, list[Point]] = {side.name: [] for side in sides}
    with Bar("training", len(sides) * seconds, "s") as bar:
        while (side := min(sides, key=lambda each: each.seconds)).seconds < seconds:
            until = min(side.seconds + STRETCH, seconds)
            while side.seconds < until:
                window, curve = side.train(), curves[side.name]
                if side.seconds > seconds / 2:
                    windows[side.name].append(window)
                due = sum(mark <= side.seconds for mark in marks) - len(curve)
                if due > 0:
                    # A step that takes longer than from one mark to the next is at both.
                    curve += due * [Point(side.seconds, side.step, _quality(side, targets))]
                bar.reach(sum(min(each.seconds, seconds) for each in sides))
    return windows, curves


def _targets(views: Views, count: int, blend: str) -> list[tuple[Camera, Picture]]:
    """Cameras and photographs, over the background, of `count` views at most."""
    targets = []
    for index in np.unique(np.linspace(0, len(views.names) - 1, count).astype(int)):
        photograph = views.images[int(index)].astype(mx.float32) / 255.0
        if photograph.shape[2] == 4:
            photograph = over(photograph, mx.array(BACKGROUND), blend)
        targets.append((views.cameras[int(index)], np.array(photograph)))
    return targets


def _quality(side: Contestant, targets: Sequence[tuple[Camera, Picture]]) -> float:
    return float(np.mean([psnr(side.render(camera), picture) for camera, picture in targets]))


def _some_rays(camera: Camera) -> tuple[Rays, Rays]:
    """BATCH rays, spread over a view, and the one through its middle."""
    rays = camera_rays(camera)
    pixels = len(rays.origin)
    spread = np.unique(np.linspace(0, pixels - 1, BATCH).astype(np.int32))
    middle = np.array([pixels // 2 + camera.lens.width // 2], np.int32)
    some, one = (Rays(*(part[mx.array(each)] for part in rays)) for each in (spread, middle))
    return some, one


def _latencies(sides: Sequence[Contestant], rays: Rays) -> dict[str, Timing]:
    """Time from the rays to their colours, a call each in turn."""
    tracers = {side.name: side.tracer(rays) for side in sides}
    spent: dict[str, list[float]] = {name: [] for name in tracers}
    for call in range(-3, CALLS):  # the first ones warm up
        for name, trace in tracers.items():
            start = time.perf_counter()
            trace()
            if call >= 0:
                spent[name].append(time.perf_counter() - start)
    return {name: quartiles(times) for name, times in spent.items()}


def _cell(timing: Timing) -> str:
    spread = f"({timing.low:.2f} to {timing.high:.2f})"
    return f"{timing.median:9.2f} ms {spread:>18} "
