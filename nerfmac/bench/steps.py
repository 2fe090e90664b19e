"""A training step of a real scene, whole and part by part, and a picture of what was learned.

The scene is trained for some steps first, so that rays, samples and gradients are those of the
middle of a run. The step is then timed in training itself, its share of the occupancy updates
included. A kernel's part is what the compiled step gets shorter by when the kernel gives at once
what it gave before, and the kernels before it too; everything else is the step in which all do. So
what a kernel does beside others is not counted twice, and what the device waits for the host is
counted. The occupancy update and the parameters' average are timed apart.

Each kernel is timed alone as well, less what a launch takes by itself: that is set against the
machine's limits. Alone it finds its inputs in a cache more often than in the step.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import mean, median_low
from typing import Any, NamedTuple

import mlx.core as mx

from nerfmac.backend import current_device
from nerfmac.bench.ceilings import Ceilings
from nerfmac.bench.launches import Launched, launched_names, launches, replayed, uncompiled
from nerfmac.bench.timing import Timing, measure, measure_in_turns, quartiles
from nerfmac.bench.work import Sizes, Work, average, between_work, step_work, update_work
from nerfmac.cameras import Camera, Lens
from nerfmac.config import Config
from nerfmac.ops.occupancy_update import pack_bits
from nerfmac.optim import AVERAGED_EVERY
from nerfmac.scenes import Scene
from nerfmac.state import TrainState
from nerfmac.trainer import Trainer

STEPS = 320
"""Steps before anything is timed: the occupancy grid has warmed up (256) and is sparse."""

_TRIAL = _, _UPDATE, _STEP, _AVERAGE = range(4)  # what `Trainer.trial` yields

NEVER_EVALUATED = ("hash_encode_position_gradient",)
"""Kernels in a step's graph whose results nobody asks for."""

WINDOWS = 5
"""Reports of training that a step's time comes from, at least."""

PICTURE = {"cpu": 200}
"""Pixels along a side of the picture, by device; 800 elsewhere."""

_KERNELS = (
    *("draw_pixels", "march_count", "march_write", "hash_encode_forward"),
    *("spherical_harmonics_forward", "networks_store", "networks_forward"),
    *("networks_density", "networks_gradient"),
    *("composite_forward", "composite_gradient", "hash_encode_table_gradient", "adam"),
    *("occupancy_choose", "occupancy_splat", "occupancy_pack", *NEVER_EVALUATED),
)


class Stepped(NamedTuple):
    """Training as it ran."""

    step: Timing  # occupancy updates included
    rays_per_second: float
    samples_per_second: float
    state: TrainState  # after it


@dataclass(frozen=True)
class Part:
    """A part of the step."""

    name: str
    timing: Timing  # of its share of the step
    work: Work
    alone: Timing | None = None  # of a kernel

    def limit(self, most: Ceilings, *, cached: bool) -> float:
        """Milliseconds that bytes and operations take at the ceilings; `cached` as in `Work`."""
        return 1e3 * self.work.seconds(most.bandwidth, most.rate, cached=cached)

    def to_json(self, most: Ceilings) -> dict[str, Any]:
        """The record as JSON values."""
        return {
            "part": self.name,
            "ms": self.timing._asdict(),
            "alone_ms": self.alone._asdict() if self.alone else None,
            "counted": self.work.__dict__,
            "limit_once_ms": self.limit(most, cached=True),
            "limit_anew_ms": self.limit(most, cached=False),
        }


class Frame(NamedTuple):
    """A picture's time."""

    side: int  # pixels
    timing: Timing

    @property
    def rays_per_second(self) -> float:
        """Pixels a second."""
        return self.side**2 / self.timing.median * 1e3

    def to_json(self) -> dict[str, Any]:
        """The record as JSON values."""
        return {
            "side": self.side,
            "ms": self.timing._asdict(),
            "rays_per_second": self.rays_per_second,
        }


def trained(scene: Scene, config: Config, steps: int = STEPS) -> tuple[Trainer, TrainState]:
    """A trainer of the scene's training views and its state after `steps`."""
    trainer = Trainer(config, scene.extent, scene.views("train"))
    state = trainer.init()
    for report in trainer.fit(state, steps=steps):
        state = report.state
    return trainer, state


def time_steps(trainer: Trainer, state: TrainState, seconds: float) -> Stepped:
    """Train on from `state` for about `seconds`; from one report to the next is one sample.

    The number of rays follows the samples per ray; the state that is returned has the usual one.
    """
    reports = trainer.fit(state)
    state = next(reports).state  # compiles, and ends where an occupancy update falls due
    begin, spent, rays, samples = state, [], [], []
    for report in reports:
        before, state = state, report.state
        spent.append((state.train_seconds - before.train_seconds) / (state.step - before.step))
        rays.append(state.rays)
        # A report's rates take the last step's samples a ray for those of all its steps.
        samples.append(state.rays * report.samples_per_second / report.rays_per_second)
        if len(spent) >= WINDOWS and state.train_seconds - begin.train_seconds >= seconds:
            break
    return Stepped(
        quartiles(spent),
        rays_per_second=mean(rays) / mean(spent),
        samples_per_second=mean(samples) / mean(spent),
        state=replace(state, rays=median_low(rays)),
    )


def sizes_of(trainer: Trainer, state: TrainState) -> Sizes:
    """The sizes of the step that follows `state`, as the current device computes it."""
    extent = trainer.geometry.extent
    return Sizes.of(trainer.config, extent, state.rays, on_gpu=current_device() != "cpu")


def parts(trainer: Trainer, scene: Scene, state: TrainState, seconds: float) -> Iterator[Part]:
    """Time each part of the step that follows `state`, about `seconds` each.

    Their sum is what a step should take. A kernel that is launched more than once is one part.
    """
    sizes, launch = sizes_of(trainer, state), time_launch(seconds)
    counted, update = step_work(sizes), update_work(sizes)
    before = recorded_launches(trainer, state)
    launched = dict.fromkeys(name for name, _ in before[_STEP])
    names = [name for name in launched if name not in NEVER_EVALUATED]
    gone = [*(names[:count] for count in range(len(names))), [*names, *NEVER_EVALUATED]]
    every = list(itertools.chain(*before))
    shorter = [_without(each, trainer, scene, state, every) for each in gone]
    turns = measure_in_turns(shorter, seconds=seconds * len(shorter))
    for name, with_it, without_it in zip(names, turns, turns[1:], strict=False):
        less = [a - b for a, b in zip(with_it, without_it, strict=True)]
        same = [launched for each, launched in before[_STEP] if each == name]
        alone = measure(partial(_again, same), seconds=seconds, queued=True)
        alone = _less(alone, launch.times(len(same)))
        yield Part(name, quartiles(less), counted[name], alone)
    yield Part("everything else", quartiles(turns[-1]), between_work(sizes))
    updating = measure(_compiled(trainer, state, _UPDATE), seconds=seconds, queued=True)
    yield Part(
        f"occupancy update, 1/{sizes.interval}",
        updating.times(1 / sizes.interval),
        sum(update.values(), Work()).share(sizes.interval),
    )
    averaging = measure(_compiled(trainer, state, _AVERAGE), seconds=seconds, queued=True)
    yield Part(
        f"average, 1/{AVERAGED_EVERY}",
        averaging.times(1 / AVERAGED_EVERY),
        average(sizes).share(AVERAGED_EVERY),
    )


def time_launch(seconds: float) -> Timing:
    """Time the launch of a kernel that has next to nothing to do: 32 cells' bits."""
    cells, threshold = mx.zeros(32), mx.zeros(1)
    return measure(partial(pack_bits, cells, threshold), seconds=seconds, queued=True)


def time_host(trainer: Trainer, state: TrainState, seconds: float) -> Timing:
    """Time what the host does for a step: it builds it and hands it to the device, a GPU.

    Where that takes longer than the parts together the device waits for the host.
    """
    spent: list[float] = []
    while len(spent) < 5 or sum(spent) < seconds:
        mx.synchronize()
        start = time.perf_counter()
        after, _ = trainer.advance(state, rate=0.0)
        mx.async_eval(after.arrays())
        spent.append(time.perf_counter() - start)
    mx.synchronize()
    return quartiles(spent)


def total(parts: Iterable[Part]) -> float:
    """Milliseconds of all parts together, by their medians."""
    return sum(part.timing.median for part in parts)


def apart(parts: Iterable[Part], whole: Stepped) -> float:
    """How far the parts' sum is from the step, in per cent of it."""
    return 100.0 * (total(parts) / whole.step.median - 1.0)


def step_json(
    trainer: Trainer, whole: Stepped, parts: Sequence[Part], most: Ceilings
) -> dict[str, Any]:
    """The step and its parts as JSON values, times in milliseconds."""
    return {
        "ms": whole.step._asdict(),
        "rays": whole.state.rays,
        "slots": trainer.config.train.slots,
        "rays_per_second": whole.rays_per_second,
        "samples_per_second": whole.samples_per_second,
        "parts": [part.to_json(most) for part in parts],
        "sum_ms": total(parts),
        "sum_from_step_percent": apart(parts, whole),
    }


def recorded_launches(trainer: Trainer, state: TrainState) -> list[list[tuple[str, Launched]]]:
    """What each computation of `Trainer.trial` launches, evaluated, with the kernels' names.

    They are the occupancy update in the warm-up, the one after it, the step, and the average.
    """
    with uncompiled():
        trial, again = trainer.trial(state), trainer.trial(state)
        found = [launches(partial(next, trial)) for _ in _TRIAL]
    names = [launched_names(partial(next, again)) for _ in _TRIAL]
    for each in itertools.chain(*found):
        mx.eval(each.call["inputs"], each.outputs)
    return [
        [(_function(name), launched) for name, launched in zip(*both, strict=True)]
        for both in zip(names, found, strict=True)
    ]


def time_frame(trainer: Trainer, scene: Scene, state: TrainState, seconds: float) -> Frame:
    """Time a square picture of the trained field, from the place of the first photograph."""
    side = PICTURE.get(current_device(), 800)
    camera = scene.splits["train"][0].camera
    angle = 2.0 * math.atan(0.5 * camera.lens.width / camera.lens.fl_x)
    view = Camera(Lens.from_fov(angle, side, side), camera.pose)
    renderer = trainer.renderer(state)
    timing = measure(lambda: renderer.pixels(view, (1.0, 1.0, 1.0)), seconds=seconds)
    return Frame(side, timing)


def _compiled(trainer: Trainer, state: TrainState, which: int) -> Callable[[], Any]:
    """One computation of `Trainer.trial`, compiled without the others."""
    arrays, numbers = state.arrays(), state.numbers()

    def compute(arrays: dict[str, mx.array]) -> Any:
        trial = trainer.trial(TrainState.of(arrays, numbers))
        return next(itertools.islice(trial, which, None))

    return partial(mx.compile(compute), arrays)


def _without(
    names: Sequence[str],
    trainer: Trainer,
    scene: Scene,
    state: TrainState,
    before: Sequence[tuple[str, Launched]],
) -> Callable[[], Any]:
    """The compiled step, in which these kernels give at once what they gave `before`."""
    # A trainer that has compiled nothing yet.
    fresh = Trainer(trainer.config, trainer.geometry.extent, scene.views("train"))
    compute = _compiled(fresh, state, _STEP)
    with replayed(before, names):
        mx.eval(compute())
    return lambda: compute()[0]  # what a step measures is computed in one of sixteen


def _again(same: list[Launched]) -> list[list[mx.array]]:
    return [launched.again() for launched in same]


def _function(specialisation: str) -> str:
    """The kernel's function, with which a specialisation's name begins."""
    return max((name for name in _KERNELS if specialisation.startswith(f"{name}_")), key=len)


def _less(whole: Timing, part: Timing) -> Timing:
    """What remains, at least nothing: the two were measured apart."""
    return Timing(
        max(0.0, whole.median - part.median),
        max(0.0, whole.low - part.low),
        max(0.0, whole.high - part.high),
        whole.calls,
    )
