"""The parts of a training step, with the time, the bytes and the operations of each.

A step is recorded where the run stands (`nerfmac.measure.step`). The launches of each kernel are
then launched again by themselves, with the same arrays, and timed; the time of as many empty
launches is taken off. What remains of the step is "everything else": MLX's own operations,
operations that run as reference, launching, reports, and waiting for the host. By itself a kernel
finds more of its inputs in a cache than in the step, and overlaps with nothing: the rest may be
below zero. The occupancy update and the average of the parameters are not in every step; each has
its share of a step here.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from math import ceil
from statistics import mean
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np

from nerfmac.backend import current_device, uncompiled
from nerfmac.common.timeline import Entry, Timeline, recording
from nerfmac.measure.ceilings import Ceilings
from nerfmac.measure.launches import Launched, Work, total
from nerfmac.measure.step import NEVER_EVALUATED, recorded_launches
from nerfmac.measure.timing import Timing, measure, measure_interleaved, quartiles
from nerfmac.ops.occupancy_update import pack_bits
from nerfmac.run import Run
from nerfmac.training.goal import Goal, Report
from nerfmac.training.optimiser import AVERAGED_EVERY
from nerfmac.training.state import TrainState
from nerfmac.training.trainer import Trainer

STAGES = {
    "draw_pixels": "rays",
    "march": "samples",
    "packing": "samples",
    "visibility": "samples",
    "hash_encode": "encoding",
    "spherical_harmonics": "encoding",
    "networks": "networks",
    "composite": "compositing",
    "adam": "optimiser",
}
"""The stage of the step that an operation belongs to; another operation is a stage of its own."""
SETTLING = 5
"""Reports of training before it is timed: steps are compiled, and the number of rays is chosen."""


class WholeStep(NamedTuple):
    """A step of training, as it ran."""

    step: Timing  # with its share of updates, averages and reports
    rays_per_second: float
    samples_per_second: float
    state: TrainState  # before the steps that were timed


class Part(NamedTuple):
    """A part of the step."""

    name: str
    timing: Timing  # in a step
    work: Work = Work()
    stage: str = "everything else"
    backend: str = "mlx"
    """What runs it: metal, cuda or cpu for a kernel, mlx for MLX's own operations."""
    dtypes: tuple[str, ...] = ()  # of a kernel's floats

    def limit(self, most: Ceilings, *, cached: bool) -> float:
        """Milliseconds that bytes and operations take at the ceilings; `cached` as in `Work`."""
        return 1e3 * self.work.seconds(most.bandwidth, most.rate, cached=cached)

    def fraction(self, most: Ceilings, *, cached: bool) -> float | None:
        """The scarcer limit over the time; None without work, or if the time is lost in noise."""
        limit, median = self.limit(most, cached=cached), self.timing.median
        return limit / median if median > 0 and limit > 0 else None

    def per_second(self, amount: int) -> float | None:
        """The rate of an `amount` of the work; None if the time is lost in noise."""
        return 1e3 * amount / self.timing.median if self.timing.median > 0 else None

    def to_json(self, most: Ceilings) -> dict[str, Any]:
        """The record as JSON values."""
        values = {
            "part": self.name,
            "stage": self.stage,
            "backend": self.backend,
            "dtypes": list(self.dtypes),
            "ms": self.timing._asdict(),
            "counted": self.work._asdict(),
            "bytes_per_second": self.per_second(self.work.cached),
            "operations_per_second": self.per_second(self.work.operations),
        }
        for name, cached in (("cached", True), ("uncached", False)):
            values[f"fraction_of_machine_{name}"] = self.fraction(most, cached=cached)
            values[f"limit_{name}_ms"] = self.limit(most, cached=cached)
        return values


def time_step(run: Run, seconds: float, steps: int | None = None) -> WholeStep:
    """Time training for about `seconds`, or for `steps`, rounded up to whole reports.

    The run is trained on until its speed has settled; each round then begins from that state, so
    that all rounds have the same rays and samples.
    """
    state = list(itertools.islice(run.fit(Goal()), SETTLING))[-1].state
    rounds = None if steps is None else ceil(steps / run.trainer.sampler.interval_at(state.step))
    passed: list[Report] = []

    def train() -> float:
        passed.append(next(run.trainer.train(state, Goal())))
        now = passed[-1].state
        return (now.train_seconds - state.train_seconds) / (now.step - state.step)

    (spent,) = measure_interleaved([train], seconds=seconds, rounds=rounds, what="steps")
    reports = passed[-len(spent) :]
    # A report's rates assume that all its steps had its last step's samples per ray.
    rays = [each.state.rays for each in reports]
    samples = [each.state.rays * each.samples_per_second / each.rays_per_second for each in reports]
    rates = mean(rays) / mean(spent), mean(samples) / mean(spent)
    return WholeStep(quartiles(spent), *rates, state)


def time_launch(seconds: float) -> Timing:
    """Time an empty launch, by a kernel with almost no work: it packs 32 bits."""
    cells, threshold = mx.zeros(32), mx.zeros(1)
    return measure(partial(pack_bits, cells, threshold), seconds=seconds, queued=True)


def parts(trainer: Trainer, whole: WholeStep, launch: Timing, seconds: float) -> list[Part]:
    """All parts of the step, each timed for about `seconds`; together they are the `whole`.

    `launch` is the time of an empty launch.
    """
    step = recorded_launches(trainer, whole.state)[trainer.sampler.phases]
    done = list(kernel_parts(step, launch, seconds))
    seldom = list(_seldom(trainer, whole.state, seconds))
    left = whole.step.median - sum(each.timing.median for each in (*done, *seldom))
    return [*done, Part("everything else", Timing(left, left, left, whole.step.calls)), *seldom]


def kernel_parts(step: list[Launched], launch: Timing, seconds: float) -> Iterator[Part]:
    """A part for each kernel of the recorded `step`, in order: all its launches by themselves."""
    counted = [each for each in step if each.name not in NEVER_EVALUATED]
    for name in dict.fromkeys(each.name for each in counted):
        same = [each for each in counted if each.name == name]
        alone = measure(partial(_again, same), seconds=seconds, queued=True)
        yield Part(
            name,
            alone.less(launch.times(len(same))),
            total(each.work for each in same),
            STAGES.get(same[0].operation, same[0].operation),
            current_device(),
            same[0].dtypes,
        )


def _again(same: list[Launched]) -> list[list[mx.array]]:
    return [launched.again() for launched in same]


def _seldom(trainer: Trainer, state: TrainState, seconds: float) -> Iterator[Part]:
    """The parts that are not in every step, each with its share."""
    sampler = trainer.sampler
    interval = sampler.interval_at(state.step)
    if sampler.phases:
        phase = sampler.phase_at(state.step)
        recorded = recorded_launches(trainer, state)[phase]
        update = measure(_compiled(trainer, state, phase), seconds=seconds, queued=True)
        work = total(each.work for each in recorded if each.name not in NEVER_EVALUATED)
        yield Part(
            f"occupancy update, 1/{interval}",
            update.times(1 / interval),
            work // interval,
            "occupancy update",
            current_device(),
        )
    average = measure(_compiled(trainer, state, sampler.phases + 1), seconds=seconds, queued=True)
    moved = 3 * sum(each.nbytes for each in state.parameters.values())  # two read, one written
    yield Part(
        f"average, 1/{AVERAGED_EVERY}",
        average.times(1 / AVERAGED_EVERY),
        Work(moved, moved) // AVERAGED_EVERY,
        "optimiser",
    )


def _compiled(trainer: Trainer, state: TrainState, which: int) -> Callable[[], Any]:
    """One computation of `Trainer.trial`, compiled by itself."""
    arrays, numbers = state.arrays(), state.numbers()

    def compute(arrays: dict[str, mx.array]) -> Any:
        # What is compiled within is a part of this: to trace it here is not to trace it again.
        with uncompiled():
            trial = trainer.trial(TrainState.of(arrays, numbers))
            return next(itertools.islice(trial, which, None))

    return partial(mx.compile(compute), arrays)


def stages(parts: Iterable[Part]) -> dict[str, list[Part]]:
    """The parts by their stages, in the order of the step."""
    found: dict[str, list[Part]] = {}
    for part in parts:
        found.setdefault(part.stage, []).append(part)
    return found


class Host(NamedTuple):
    """A step as the host sees it."""

    step: Timing  # from its beginning to that of the next
    work: Timing  # building it, and its part of updates and reports
    launch: Timing  # handing it to the device; MLX waits in there if a CPU has enough to do
    wait: Timing  # for the device, which is behind
    steps: int

    def to_json(self) -> dict[str, Any]:
        """The record as JSON values, times in milliseconds."""
        *timings, steps = self._asdict().items()
        return dict([steps]) | {f"{name}_ms": each._asdict() for name, each in timings}


def take_steps(run: Run, steps: int) -> Timeline:
    """Train `run` on by so many steps, and record them."""
    with recording() as timeline:
        for _ in run.fit(Goal(steps=run.state.step + steps)):
            pass
    return timeline


def host_of(timeline: Timeline) -> Host:
    """What the host did for the steps of `timeline`; the last step is left out if there are more.

    A step that is followed by a report ends with it: the host reads there what the device has
    computed, so all of a report counts as waiting.
    """
    entries = sorted(timeline.entries, key=lambda each: each.start)
    begins = [each.start for each in entries if each.name == "step"]
    ends = begins[1:] or [max(each.end or each.start for each in entries)]
    spans = list(zip(begins, ends, strict=False))
    whole = np.array([(end - begin) / 1e9 for begin, end in spans])
    waits = np.array([_spent(entries, span, ("wait for the device", "report")) for span in spans])
    launches = np.array([_spent(entries, span, ("launch",)) for span in spans])
    return Host(
        step=quartiles(whole),
        work=quartiles(whole - waits - launches),
        launch=quartiles(launches),
        wait=quartiles(waits),
        steps=len(spans),
    )


def _spent(entries: list[Entry], span: tuple[int, int], names: tuple[str, ...]) -> float:
    """Seconds of the intervals of these names that began between two moments."""
    begin, end = span
    return sum(each.seconds for each in entries if each.name in names and begin <= each.start < end)
