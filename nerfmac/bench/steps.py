"""A training step of a real scene: as it runs, and with fewer and fewer kernels in it.

The scene is trained for some steps first, so that rays, samples and gradients are those of the
middle of a run. The step is then timed in training itself, its share of the occupancy updates
included. In turns with it run steps in which the first kernel, the first two and at last all give
at once what they gave before; they are queued as training's are, each goes on from the one before,
and as many run at a time as lie between two updates. What slows the machine slows all of a turn.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from statistics import mean, median_low
from typing import Any, NamedTuple

import mlx.core as mx

from nerfmac.backend import current_device
from nerfmac.bench.launches import Launched, launched_names, launches, replayed, uncompiled
from nerfmac.bench.progress import Bar
from nerfmac.bench.timing import Timing, measure, measure_in_turns, quartiles
from nerfmac.bench.work import Sizes
from nerfmac.config import Config
from nerfmac.ops.occupancy_update import pack_bits
from nerfmac.scenes import Scene
from nerfmac.training.goal import Goal, Report
from nerfmac.training.state import TrainState
from nerfmac.training.trainer import Queue, Trainer

STEPS = 1024
"""Steps before anything is timed: the occupancy grid is sparse, as in most of a run."""

SETTLING = 5
"""Reports of training before its steps are timed: they compile, and tell how many rays it takes."""

_TRIAL = _, _UPDATE, _STEP, _AVERAGE = range(4)  # what `Trainer.trial` yields

NEVER_EVALUATED = ("hash_encode_position_gradient",)
"""Kernels in a step's graph whose results nobody asks for."""

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
    state: TrainState  # from which the shortened steps go on


class StepTurns(NamedTuple):
    """Training, and steps with fewer and fewer kernels, turn after turn."""

    whole: Stepped
    launched: dict[str, list[Launched]]  # what the step launches, by kernel, in order
    shorter: list[list[float]]  # seconds of a step without the first 0, 1, ... kernels


def trained(scene: Scene, config: Config, steps: int = STEPS) -> tuple[Trainer, TrainState]:
    """A trainer of the scene's training views and its state after `steps`."""
    trainer = Trainer(config, scene.extent, scene.views("train"))
    state = trainer.init()
    with Bar("training", steps, "steps") as bar:
        for report in trainer.train(state, Goal(steps=steps)):
            state = report.state
            bar.reach(state.step)
    return trainer, state


def time_in_turns(trainer: Trainer, scene: Scene, state: TrainState, seconds: float) -> StepTurns:
    """Train on from `state`, and run shortened steps in turns with it, for about `seconds` in all.

    The number of rays follows the samples per ray; the shortened steps have the usual one.
    """
    reports = trainer.train(state, Goal())
    passed = [next(reports) for _ in range(SETTLING)]  # the last where an update falls due
    state = replace(passed[-1].state, rays=median_low(each.state.rays for each in passed))
    before = recorded_launches(trainer, state)[_STEP]
    names = [
        name for name in dict.fromkeys(name for name, _ in before) if name not in NEVER_EVALUATED
    ]
    gone = [names[:count] for count in range(len(names) + 1)]

    def train() -> float:
        passed.append(next(reports))
        earlier, now = (each.state for each in passed[-2:])
        return (now.train_seconds - earlier.train_seconds) / (now.step - earlier.step)

    shortened = []
    with Bar("compiling shortened steps", len(gone), "steps") as bar:
        for each in gone:
            shortened.append(_without(each, trainer, scene, state, before))
            bar.reach(len(shortened))
    spent, *shorter = measure_in_turns([train, *shortened], seconds=seconds)
    return StepTurns(
        _stepped(spent, passed[-len(spent) :], state),
        {name: [launched for each, launched in before if each == name] for name in names},
        shorter,
    )


def sizes_of(trainer: Trainer, state: TrainState) -> Sizes:
    """The sizes of the step that follows `state`, as the current device computes it."""
    extent = trainer.extent
    return Sizes.of(trainer.config, extent, state.rays, on_gpu=current_device() != "cpu")


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


def time_update(trainer: Trainer, state: TrainState, seconds: float) -> Timing:
    """Time the occupancy update that follows the warm-up."""
    return measure(_compiled(trainer, state, _UPDATE), seconds=seconds, queued=True)


def time_average(trainer: Trainer, state: TrainState, seconds: float) -> Timing:
    """Time the parameters' average."""
    return measure(_compiled(trainer, state, _AVERAGE), seconds=seconds, queued=True)


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


def _stepped(spent: Sequence[float], passed: Sequence[Report], state: TrainState) -> Stepped:
    """What these reports of training tell; `spent`: seconds of a step in each."""
    rays = [each.state.rays for each in passed]
    # A report's rates take the last step's samples a ray for those of all its steps.
    samples = [each.state.rays * each.samples_per_second / each.rays_per_second for each in passed]
    return Stepped(
        quartiles(spent),
        rays_per_second=mean(rays) / mean(spent),
        samples_per_second=mean(samples) / mean(spent),
        state=state,
    )


def _without(
    names: Sequence[str],
    trainer: Trainer,
    scene: Scene,
    state: TrainState,
    before: Sequence[tuple[str, Launched]],
) -> Callable[[], float]:
    """Steps in which these kernels give at once what they gave `before`; seconds of one."""
    # A trainer that has compiled nothing yet.
    fresh = Trainer(trainer.config, trainer.extent, scene.views("train"))
    with replayed(before, names):
        after, _ = fresh.advance(state, rate=0.0)
        mx.eval(after.arrays())
    steps = trainer.sampler.interval_at(state.step)

    def run() -> float:
        start, now, queue = time.perf_counter(), state, Queue()
        for _ in range(steps):
            after, _measured = fresh.advance(now, rate=0.0)
            # Always the same step, so that none is one that is averaged.
            now = replace(after, step=state.step)
            queue.add(now)
        mx.eval(now.arrays())
        return (time.perf_counter() - start) / steps

    return run


def _compiled(trainer: Trainer, state: TrainState, which: int) -> Callable[[], Any]:
    """One computation of `Trainer.trial`, compiled without the others."""
    arrays, numbers = state.arrays(), state.numbers()

    def compute(arrays: dict[str, mx.array]) -> Any:
        trial = trainer.trial(TrainState.of(arrays, numbers))
        return next(itertools.islice(trial, which, None))

    return partial(mx.compile(compute), arrays)


def _function(specialisation: str) -> str:
    """The kernel's function, with which a specialisation's name begins."""
    return max((name for name in _KERNELS if specialisation.startswith(f"{name}_")), key=len)
