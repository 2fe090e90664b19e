"""What a training step consists of: each kernel's part in time, bytes and operations.

A kernel's part is what the step gets shorter by when the kernel gives at once what it gave before,
and the kernels before it too; everything else is the step in which all do. So what a kernel does
beside others is not counted twice, and what the device waits for the host is counted. The occupancy
update and the parameters' average are timed apart.

Each kernel is timed alone as well, less what a launch takes by itself: that is set against the
machine's limits. Alone it finds its inputs in a cache more often than in the step.
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
from nerfmac.bench.steps import Stepped, StepTurns, sizes_of, time_average, time_update
from nerfmac.bench.timing import Timing, measure, quartiles
from nerfmac.bench.work import Work, average, between_work, step_work, update_work
from nerfmac.training.optimiser import AVERAGED_EVERY
from nerfmac.training.trainer import Trainer


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


def parts(trainer: Trainer, turns: StepTurns, launch: Timing, seconds: float) -> Iterator[Part]:
    """The parts of the step that was timed in `turns`; what else they need, about `seconds` each.

    Their sum is what a step should take. A kernel that is launched more than once is one part.
    `launch` is what one takes by itself.
    """
    state = turns.whole.state
    sizes = sizes_of(trainer, state)
    counted, update = step_work(sizes), update_work(sizes)
    shorter = pairwise(turns.shorter)
    for (name, same), (with_it, without_it) in zip(turns.launched.items(), shorter, strict=True):
        less = [a - b for a, b in zip(with_it, without_it, strict=True)]
        alone = measure(partial(_again, same), seconds=seconds, queued=True)
        alone = _less(alone, launch.times(len(same)))
        yield Part(name, quartiles(less), counted[name], alone)
    yield Part("everything else", quartiles(turns.shorter[-1]), between_work(sizes))
    yield Part(
        f"occupancy update, 1/{sizes.interval}",
        time_update(trainer, state, seconds).times(1 / sizes.interval),
        sum(update.values(), Work()).share(sizes.interval),
    )
    yield Part(
        f"average, 1/{AVERAGED_EVERY}",
        time_average(trainer, state, seconds).times(1 / AVERAGED_EVERY),
        average(sizes).share(AVERAGED_EVERY),
    )


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


def _again(same: list[Launched]) -> list[list[mx.array]]:
    return [launched.again() for launched in same]


def _less(whole: Timing, part: Timing) -> Timing:
    """What remains, at least nothing: the two were measured apart."""
    return Timing(
        max(0.0, whole.median - part.median),
        max(0.0, whole.low - part.low),
        max(0.0, whole.high - part.high),
        whole.calls,
    )
