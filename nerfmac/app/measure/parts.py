"""Division of a training step into parts, with the time and the work of each part.

The launches of each kernel are repeated with the same arrays, and the time of as many empty
launches is subtracted. The remaining time of the step is called "everything else": MLX operations,
references, launches, reports, and waiting for the host. It may be negative, because kernels may
overlap in a step but not while they are repeated.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from math import ceil
from statistics import mean
from typing import Any, NamedTuple

import mlx.core as mx

from nerfmac.app.measure.launches import Launched, Work, by_kernel, recorded_launches, total
from nerfmac.app.measure.timing import Ceilings, Timing, measure, quartiles, repeated
from nerfmac.app.run import Training
from nerfmac.backend import current_device, uncompiled
from nerfmac.ops.occupancy_update import pack_bits
from nerfmac.training.goal import Goal, Report
from nerfmac.training.optimizer import AVERAGED_EVERY
from nerfmac.training.state import TrainState
from nerfmac.training.trainer import Trainer

STAGES = {
    **dict.fromkeys(("uniform", "draw_pixels"), "rays"),
    **dict.fromkeys(("march", "packing", "visibility", "thin"), "samples"),
    **dict.fromkeys(("hash_encode", "spherical_harmonics"), "encoding"),
    **dict.fromkeys(("composite", "expose"), "compositing"),
    **dict.fromkeys(("penalty", "sensor_depth", "huber", "masked_mean"), "loss"),
    **dict.fromkeys(("loss_scale", "adam"), "optimizer"),
}
"""Stage of the training step for each operation. An operation that is not listed is a separate
stage."""
SETTLING = 5  # Number of reports before timing, until the number of rays converges.


class WholeStep(NamedTuple):
    """Time of a training step."""

    step: Timing  # time per step, including the share of updates, averages, and reports
    rays_per_second: float
    samples_per_second: float
    state: TrainState  # state before the timed steps


class Part(NamedTuple):
    """Part of a training step: a kernel, a computation for several steps, or "everything else"."""

    name: str
    timing: Timing  # time per step
    work: Work = Work()  # work per step
    stage: str = "everything else"
    backend: str = "mlx"  # "metal", "cuda", or "cpu" for kernels, and "mlx" for the rest.
    dtypes: tuple[str, ...] = ()  # float dtypes of the arrays of a kernel

    def limit(self, most: Ceilings, *, cached: bool) -> float:
        """Return the minimum time in milliseconds in the roofline model, at the rates `most`."""
        return 1e3 * self.work.seconds(most.bandwidth, most.rate, cached=cached)

    def fraction(self, most: Ceilings, *, cached: bool) -> float | None:
        """Return `limit` / measured time, or None if the work or the measured time is zero."""
        limit, median = self.limit(most, cached=cached), self.timing.median
        return limit / median if median > 0 and limit > 0 else None

    def per_second(self, amount: int) -> float | None:
        """Return `amount` per second of measured time, or None if the measured time is zero."""
        return 1e3 * amount / self.timing.median if self.timing.median > 0 else None

    def to_json(self, most: Ceilings) -> dict[str, Any]:
        """Return the part as JSON values."""
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


def time_step(training: Training, seconds: float, steps: int | None = None) -> WholeStep:
    """Measure the time of a step, for about `seconds` or for `steps` steps, rounded up to whole
    reports. The run is first trained until its speed is constant. Every timed round begins from
    this state, so all rounds have the same rays and samples."""
    state = list(itertools.islice(training.fit(Goal()), SETTLING))[-1].state
    trainer = training.trainer
    assert trainer is not None
    interval = trainer.model.sampler.interval_at(state.step)
    rounds = None if steps is None else ceil(steps / interval)
    reports: list[Report] = []

    def train() -> float:
        reports.extend(trainer.train(state, Goal(steps=state.step + interval)))
        now = reports[-1].state
        return (now.train_seconds - state.train_seconds) / (now.step - state.step)

    spent = repeated(train, seconds=seconds, rounds=rounds, what="steps")
    timed = reports[-len(spent) :]
    # The rates in a report are computed with the number of samples per ray of its last step.
    rays = [report.state.rays for report in timed]
    per_ray = [report.samples_per_second / report.rays_per_second for report in timed]
    samples = [of_step * of_ray for of_step, of_ray in zip(rays, per_ray, strict=True)]
    rates = mean(rays) / mean(spent), mean(samples) / mean(spent)
    return WholeStep(quartiles(spent), *rates, state)


def time_launch(seconds: float) -> Timing:
    """Measure the time of a kernel launch with almost no work (packing 32 bits)."""
    cells, threshold = mx.zeros(32), mx.zeros(1)
    return measure(partial(pack_bits, cells, threshold), seconds=seconds, queued=True)


def parts(trainer: Trainer, whole: WholeStep, launch: Timing, seconds: float) -> list[Part]:
    """Measure the time of each part of a step. The medians add up to the median of `whole`.
    `launch` is the time of an empty launch."""
    step = recorded_launches(trainer, whole.state)[trainer.model.sampler.phases]
    kernels = list(kernel_parts(step, launch, seconds))
    rare = list(_rare_parts(trainer, whole.state, seconds))
    rest = whole.step.median - sum(part.timing.median for part in (*kernels, *rare))
    return [*kernels, Part("everything else", Timing(rest, rest, rest, whole.step.calls)), *rare]


def kernel_parts(step: list[Launched], launch: Timing, seconds: float) -> Iterator[Part]:
    """Yield a part for each kernel of a recorded step, in order."""
    for name, same in by_kernel(step).items():
        alone = measure(partial(_repeat, same), seconds=seconds, queued=True)
        yield Part(
            name,
            alone.less(launch.times(len(same))),
            total(launched.work for launched in same),
            STAGES.get(same[0].operation, same[0].operation),
            current_device(),
            same[0].dtypes,
        )


def _repeat(recorded: list[Launched]) -> list[list[mx.array]]:
    return [launched.again() for launched in recorded]


def _rare_parts(trainer: Trainer, state: TrainState, seconds: float) -> Iterator[Part]:
    """Yield the parts of the occupancy update and of averaging the parameters."""
    sampler = trainer.model.sampler
    interval, average = sampler.interval_at(state.step), sampler.phases + 1
    seldom = [(f"average, 1/{AVERAGED_EVERY}", average, AVERAGED_EVERY, "optimizer")]
    if sampler.phases:
        name, phase = "occupancy update", sampler.phase_at(state.step)
        seldom.insert(0, (f"{name}, 1/{interval}", phase, interval, name))
    recorded = recorded_launches(trainer, state)
    for name, which, every, stage in seldom:
        timing = measure(_compiled(trainer, state, which), seconds=seconds, queued=True)
        launches = by_kernel(recorded[which]).values()
        work = total(launched.work for same in launches for launched in same)
        yield Part(name, timing.times(1 / every), work // every, stage, current_device())


def _compiled(trainer: Trainer, state: TrainState, which: int) -> Callable[[], Any]:
    """Return a compiled function that executes only the computation `which` of `Trainer.trial`."""
    arrays, numbers = state.arrays(), state.numbers()

    def compute(arrays: dict[str, mx.array]) -> Any:
        # If compiled functions inside remained compiled, they would be traced a second time.
        with uncompiled():
            trial = trainer.trial(TrainState.of(arrays, numbers))
            return next(itertools.islice(trial, which, None))

    return partial(mx.compile(compute), arrays)


def stages(parts: Iterable[Part]) -> dict[str, list[Part]]:
    """Group the parts by stage, in the order of the step."""
    by_stage: dict[str, list[Part]] = {}
    for part in parts:
        by_stage.setdefault(part.stage, []).append(part)
    return by_stage
