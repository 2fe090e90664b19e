"""A training step of a real scene: timed as it runs, and without some of its kernels.

The scene is trained for a while first, so that rays, samples and gradients are those of the middle
of a run. Then the following are timed, interleaved, each time from the same state on:

- training itself, with its occupancy updates;
- the step with all its kernels;
- the step without its first kernel, without its first two, and so on until none is left.

A kernel that is left out is replayed: its outputs are those of a recorded launch, at no cost, and
the following kernels compute as before. Neighbours in this list differ by one kernel, so the
difference of their times is what that kernel adds to the step. Steps without kernels are queued as
in training: each begins with the state that the one before ended with, and as many run at a time as
there are between two occupancy updates.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from statistics import mean
from typing import Any, NamedTuple

import mlx.core as mx

from nerfmac.backend import current_device, uncompiled, variant
from nerfmac.measure.bench import (
    Bar,
    Launched,
    Sizes,
    Timing,
    launches,
    measure,
    measure_interleaved,
    quartiles,
    replayed,
)
from nerfmac.ops.networks import gradient_groups
from nerfmac.ops.occupancy_update import pack_bits
from nerfmac.run import Run
from nerfmac.training.goal import Goal, Report
from nerfmac.training.measured import read
from nerfmac.training.optimiser import AVERAGED_EVERY
from nerfmac.training.state import TrainState
from nerfmac.training.steps_under_way import Queue
from nerfmac.training.trainer import Trainer

SETTLING = 5
"""Reports of training before it is timed: steps are compiled, and the number of rays is seen."""

NEVER_EVALUATED = ("hash_encode_position_gradient", "packing_demand")
"""Kernels in a step's graph whose results are not used, or when there is a report only."""


class WholeStep(NamedTuple):
    """A step of training, as it ran."""

    step: Timing  # with the occupancy updates' part
    rays_per_second: float
    samples_per_second: float
    state: TrainState  # the one that steps without kernels start from


class InterleavedSteps(NamedTuple):
    """Training, and steps with fewer and fewer kernels, timed in the same rounds."""

    whole: WholeStep
    launched: dict[str, list[Launched]]  # what the step launches, by kernel, in order
    without: list[list[float]]  # [n][round]: seconds of a step without its first n kernels


def time_interleaved(run: Run, seconds: float, rounds: int | None = None) -> InterleavedSteps:
    """Time training, interleaved with steps that lack kernels, for about `seconds` in all.

    With `rounds`, so many are timed, each of the steps between two occupancy updates. All begin
    where `run` is after it was trained for a while: if training went on, it would soon have other
    rays and samples than the steps beside it.
    """
    state = list(itertools.islice(run.fit(Goal()), SETTLING))[-1].state
    passed: list[Report] = []
    recorded = recorded_launches(run.trainer, state)[run.trainer.sampler.phases]
    names = [
        name
        for name in dict.fromkeys(each.name for each in recorded)
        if name not in NEVER_EVALUATED
    ]
    left_out = [names[:count] for count in range(len(names) + 1)]

    def train() -> float:
        passed.append(next(run.trainer.train(state, Goal())))
        now = passed[-1].state
        return (now.train_seconds - state.train_seconds) / (now.step - state.step)

    timers = []
    with Bar("compiling steps without kernels", len(left_out), "steps") as bar:
        for each in left_out:
            timers.append(_step_without(each, _fresh(run), state, recorded))
            bar.reach(len(timers))
    spent, *without = measure_interleaved([train, *timers], seconds=seconds, rounds=rounds)
    return InterleavedSteps(
        _whole_step(spent, passed[-len(spent) :], state),
        {name: [each for each in recorded if each.name == name] for name in names},
        without,
    )


def _fresh(run: Run) -> Trainer:
    """A trainer of the run's scene that has compiled nothing."""
    trainer = run.trainer
    return Trainer(run.config, trainer.extent, run.pictures().views("train"), trainer.method)


def sizes_of(trainer: Trainer, state: TrainState) -> Sizes:
    """The sizes of the step that follows `state`, as the current device computes it."""
    on_gpu = current_device() != "cpu"
    sizes = Sizes.of(trainer.config, trainer.extent, state.rays, on_gpu=on_gpu)
    gradient = variant("hash_encode_gradient")
    return replace(sizes, groups=gradient_groups(), gradient=gradient)


def time_launch(seconds: float) -> Timing:
    """Time an empty launch, by a kernel with almost no work: it packs 32 bits."""
    cells, threshold = mx.zeros(32), mx.zeros(1)
    return measure(partial(pack_bits, cells, threshold), seconds=seconds, queued=True)


def time_update(trainer: Trainer, state: TrainState, seconds: float) -> Timing:
    """Time the update of the sampler's state that is due at `state`."""
    which = trainer.sampler.phase_at(state.step)
    return measure(_compiled(trainer, state, which), seconds=seconds, queued=True)


def time_average(trainer: Trainer, state: TrainState, seconds: float) -> Timing:
    """Time the parameters' average."""
    which = trainer.sampler.phases + 1
    return measure(_compiled(trainer, state, which), seconds=seconds, queued=True)


def time_report(trainer: Trainer, state: TrainState, seconds: float) -> Timing:
    """Time a report, for which the host reads what a step measured; the device has nothing else."""
    _, measured = trainer.advance(state, rate=0.0)
    mx.eval(measured, state.arrays())

    def once() -> float:
        again = measured + 0  # an array that was read is on the host
        mx.eval(again)
        start = time.perf_counter()
        read(again, state)
        return time.perf_counter() - start

    (spent,) = measure_interleaved([once], seconds=seconds, what=None)
    return quartiles(spent)


def recorded_launches(trainer: Trainer, state: TrainState) -> list[list[Launched]]:
    """The launches of each computation of `Trainer.trial`, evaluated.

    The computations are the updates of the sampler's state, of which the last follows the warm-up,
    the step, and the average of the parameters.
    """
    with uncompiled():
        trial = trainer.trial(state)
        found = [launches(partial(next, trial)) for _ in range(trainer.sampler.phases + 2)]
    for each in itertools.chain(*found):
        mx.eval(each.call["inputs"], each.outputs)
    return found


def _whole_step(spent: Sequence[float], passed: Sequence[Report], state: TrainState) -> WholeStep:
    """The training step by these reports; `spent`: seconds of a step in each."""
    rays = [each.state.rays for each in passed]
    # A report's rates assume that all its steps had its last step's samples per ray.
    samples = [each.state.rays * each.samples_per_second / each.rays_per_second for each in passed]
    return WholeStep(
        quartiles(spent),
        rays_per_second=mean(rays) / mean(spent),
        samples_per_second=mean(samples) / mean(spent),
        state=state,
    )


def _step_without(
    names: Sequence[str],
    fresh: Trainer,
    state: TrainState,
    recorded: Sequence[Launched],
) -> Callable[[], float]:
    """A function that runs a step from `state`, with the kernels `names` replayed, and times it.

    `fresh`: a trainer that has not compiled anything; it compiles its step without the kernels.
    """
    with replayed(recorded, names):
        after, _ = fresh.advance(state, rate=0.0)
        mx.eval(after.arrays())
    steps = fresh.sampler.interval_at(state.step)

    def run() -> float:
        start, now, queue = time.perf_counter(), state, Queue()
        for _ in range(steps):
            after, _measured = fresh.advance(now, rate=0.0)
            # A number after which the average is not computed; each has rays of its own, as in
            # training: of the same ones a cache would have more.
            now = replace(after, step=now.step + steps * AVERAGED_EVERY)
            queue.add(now)
        mx.eval(now.arrays())
        return (time.perf_counter() - start) / steps

    return run


def _compiled(trainer: Trainer, state: TrainState, which: int) -> Callable[[], Any]:
    """One computation of `Trainer.trial`, compiled by itself."""
    arrays, numbers = state.arrays(), state.numbers()

    def compute(arrays: dict[str, mx.array]) -> Any:
        # What is compiled within is a part of this: to trace it here is not to trace it again.
        with uncompiled():
            trial = trainer.trial(TrainState.of(arrays, numbers))
            return next(itertools.islice(trial, which, None))

    return partial(mx.compile(compute), arrays)
