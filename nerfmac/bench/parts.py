"""The parts of a training step, with the time, the bytes and the operations of each.

Kernels are left out of the step one after the other (`nerfmac.bench.steps`). A kernel's part is the
time by which leaving it out makes the step shorter. The step without any kernel is a part too,
"everything else". So kernels that overlap are not counted twice, and waiting for the host is
counted. The occupancy update and the average of the parameters are not in every step, and are
timed separately.

Each kernel is also timed alone, less the time of an empty launch, to be compared with the machine's
limits. Alone, a kernel finds its inputs in a cache more often than in the step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import mlx.core as mx

from nerfmac.bench.ceilings import Ceilings
from nerfmac.bench.launches import Launched
from nerfmac.bench.step_work import between_work, step_work, update_work
from nerfmac.bench.steps import InterleavedSteps, WholeStep, sizes_of, time_average, time_update
from nerfmac.bench.timing import Timing, measure, quartiles
from nerfmac.bench.work import Work, average
from nerfmac.training.optimiser import AVERAGED_EVERY
from nerfmac.training.trainer import Trainer


@dataclass(frozen=True)
class Part:
    """A part of the step."""

    name: str
    timing: Timing  # what it adds to a step
    work: Work  # in a step
    alone: Timing | None = None  # of a kernel: all its launches of a step, by themselves

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
            "limit_cached_ms": self.limit(most, cached=True),
            "limit_uncached_ms": self.limit(most, cached=False),
        }


def parts(
    trainer: Trainer, steps: InterleavedSteps, launch: Timing, seconds: float
) -> Iterator[Part]:
    """The parts of the step, by the times in `steps`; other times are measured, `seconds` each.

    `launch`: the time of an empty launch. All launches of a kernel are one part. All parts together
    should take as long as a step.
    """
    state = steps.whole.state
    sizes = sizes_of(trainer, state)
    counted, update = step_work(sizes), update_work(sizes)
    neighbours = zip(steps.launched.items(), pairwise(steps.without), strict=True)
    for (name, same), (with_it, without_it) in neighbours:
        added = [a - b for a, b in zip(with_it, without_it, strict=True)]
        alone = measure(partial(_again, same), seconds=seconds, queued=True)
        alone = _less(alone, launch.times(len(same)))
        yield Part(name, quartiles(added), counted[name], alone)
    yield Part("everything else", quartiles(steps.without[-1]), between_work(sizes))
    yield Part(
        f"occupancy update, 1/{sizes.interval}",
        time_update(trainer, state, seconds).times(1 / sizes.interval),
        sum(update.values(), Work()) // sizes.interval,
    )
    yield Part(
        f"average, 1/{AVERAGED_EVERY}",
        time_average(trainer, state, seconds).times(1 / AVERAGED_EVERY),
        average(sizes) // AVERAGED_EVERY,
    )


def total(parts: Iterable[Part]) -> float:
    """Milliseconds of all parts together, by their medians."""
    return sum(part.timing.median for part in parts)


def difference_percent(parts: Iterable[Part], whole: WholeStep) -> float:
    """How much longer the parts take together than the step took, in per cent of the step."""
    return 100.0 * (total(parts) / whole.step.median - 1.0)


def step_json(
    slots: int, whole: WholeStep, parts: Sequence[Part], most: Ceilings
) -> dict[str, Any]:
    """The step of so many `slots` and its parts as JSON values, times in milliseconds."""
    return {
        "ms": whole.step._asdict(),
        "rays": whole.state.rays,
        "slots": slots,
        "rays_per_second": whole.rays_per_second,
        "samples_per_second": whole.samples_per_second,
        "parts": [part.to_json(most) for part in parts],
        "sum_ms": total(parts),
        "sum_from_step_percent": difference_percent(parts, whole),
    }


def _again(same: list[Launched]) -> list[list[mx.array]]:
    return [launched.again() for launched in same]


def _less(whole: Timing, part: Timing) -> Timing:
    """`whole` less `part`; at least zero, since both have noise."""
    return Timing(
        max(0.0, whole.median - part.median),
        max(0.0, whole.low - part.low),
        max(0.0, whole.high - part.high),
        whole.calls,
    )
