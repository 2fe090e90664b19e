"""The parts of a training step, with the time, the bytes and the operations of each.

Kernels are left out of the step one after the other (`nerfmac.measure.profile.steps`). A kernel's part is
the time by which leaving it out makes the step shorter. The step without any kernel is a part too,
"everything else": MLX's own operations, those that run as reference, and waiting for the host. So
kernels that overlap are not counted twice. The occupancy update, the average of the parameters and
the report, for which the host reads the loss and looks whether all is finite, are not in every
step, and are timed separately.

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

from nerfmac.backend import current_device
from nerfmac.measure.bench import (
    Ceilings,
    Launched,
    Sizes,
    Timing,
    Work,
    average,
    between_work,
    measure,
    quartiles,
    step_work,
    update_work,
)
from nerfmac.measure.profile.steps import (
    InterleavedSteps,
    WholeStep,
    sizes_of,
    time_average,
    time_report,
    time_update,
)
from nerfmac.training.optimiser import AVERAGED_EVERY
from nerfmac.training.state import TrainState
from nerfmac.training.trainer import Trainer

STAGES = {
    "draw_pixels": "rays",
    "march": "samples",
    "packing": "samples",
    "reach": "samples",
    "hash_encode": "encoding",
    "spherical_harmonics": "encoding",
    "networks": "networks",
    "composite": "compositing",
    "adam": "optimiser",
}
"""The stage of the step that an operation belongs to; another's is the operation itself."""


@dataclass(frozen=True)
class Part:
    """A part of the step."""

    name: str
    timing: Timing  # what it adds to a step
    work: Work  # in a step
    stage: str = "everything else"
    backend: str = "mlx"
    """What runs it: metal, cuda or cpu for a kernel, mlx for MLX's own operations."""
    dtypes: tuple[str, ...] = ()  # of a kernel: its floats' types
    alone: Timing | None = None  # of a kernel: all its launches of a step, by themselves

    def limit(self, most: Ceilings, *, cached: bool) -> float:
        """Milliseconds that bytes and operations take at the ceilings; `cached` as in `Work`."""
        return 1e3 * self.work.seconds(most.bandwidth, most.rate, cached=cached)

    @property
    def seconds(self) -> float:
        """For rates: of a kernel alone, where that is known."""
        return (self.alone or self.timing).median / 1e3

    @property
    def bandwidth(self) -> float | None:
        """Bytes a second, each array moved once; None where the time is lost in noise."""
        return self.work.cached / self.seconds if self.seconds > 0 else None

    @property
    def rate(self) -> float | None:
        """Floating-point operations a second; None where the time is lost in noise."""
        return self.work.operations / self.seconds if self.seconds > 0 else None

    def fraction(self, most: Ceilings, *, cached: bool) -> float | None:
        """Which fraction of the machine's rate it reaches, of bytes or operations, the scarcer."""
        limit = self.limit(most, cached=cached)
        return limit / 1e3 / self.seconds if self.seconds > 0 and limit > 0 else None

    def to_json(self, most: Ceilings) -> dict[str, Any]:
        """The record as JSON values."""
        return {
            "part": self.name,
            "stage": self.stage,
            "backend": self.backend,
            "dtypes": list(self.dtypes),
            "ms": self.timing._asdict(),
            "alone_ms": self.alone._asdict() if self.alone else None,
            "counted": self.work.__dict__,
            "bytes_per_second": self.bandwidth,
            "operations_per_second": self.rate,
            "fraction_of_machine_cached": self.fraction(most, cached=True),
            "fraction_of_machine_uncached": self.fraction(most, cached=False),
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
    sizes = sizes_of(trainer, steps.whole.state)
    # Of another model than the hash model only these shapes are known.
    config = trainer.config
    is_hash = config.model == config.encoding == "hash" and not trainer.method.own
    counted = step_work(sizes)
    if not is_hash:
        counted = {"draw_pixels": counted["draw_pixels"]}
    neighbours = zip(steps.launched.items(), pairwise(steps.without), strict=True)
    for (name, same), (with_it, without_it) in neighbours:
        added = [a - b for a, b in zip(with_it, without_it, strict=True)]
        alone = measure(partial(_again, same), seconds=seconds, queued=True)
        first = same[0]
        yield Part(
            name,
            quartiles(added),
            counted.get(name) or _moved(same),
            STAGES.get(first.operation, first.operation),
            current_device(),
            first.dtypes,
            _less(alone, launch.times(len(same))),
        )
    rest = quartiles(steps.without[-1])
    yield Part("everything else", rest, between_work(sizes) if is_hash else Work())
    yield from _seldom(trainer, steps.whole.state, sizes if is_hash else None, seconds)


def _seldom(
    trainer: Trainer, state: TrainState, sizes: Sizes | None, seconds: float
) -> Iterator[Part]:
    """The parts that are not in every step; `sizes` are those that their work is counted by."""
    sampler = trainer.sampler
    interval = sampler.interval_at(state.step)
    if sampler.phases:
        phase = sampler.phase_at(state.step)
        # The update during the warm-up has other shapes, which are not counted.
        counted = sizes if phase == sampler.phases - 1 else None
        yield Part(
            f"occupancy update, 1/{interval}",
            time_update(trainer, state, seconds).times(1 / interval),
            sum(update_work(counted).values(), Work()) // interval if counted else Work(),
            "occupancy update",
            current_device(),
        )
    yield Part(
        f"report, 1/{interval}",
        time_report(trainer, state, seconds).times(1 / interval),
        Work(),
        "report",
    )
    yield Part(
        f"average, 1/{AVERAGED_EVERY}",
        time_average(trainer, state, seconds).times(1 / AVERAGED_EVERY),
        average(sizes) // AVERAGED_EVERY if sizes else Work(),
        "optimiser",
    )


def total(parts: Iterable[Part]) -> float:
    """Milliseconds of all parts together, by their medians."""
    return sum(part.timing.median for part in parts)


def stages(parts: Iterable[Part]) -> dict[str, list[Part]]:
    """The parts by their stages, in the order of the step."""
    found: dict[str, list[Part]] = {}
    for part in parts:
        found.setdefault(part.stage, []).append(part)
    return found


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
        "stages_ms": {name: total(some) for name, some in stages(parts).items()},
        "sum_ms": total(parts),
        "sum_from_step_percent": difference_percent(parts, whole),
    }


def _moved(same: Sequence[Launched]) -> Work:
    """The bytes of a kernel whose work is not counted, each array moved once."""
    moved = sum(launched.traffic for launched in same)
    return Work(moved, moved)


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
