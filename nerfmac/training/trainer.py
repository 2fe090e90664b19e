"""`Trainer` trains a field step by step and yields reports.

MLX traces the step again for each new number of rays, so `RayBudget` limits the possible numbers.
The trainer does not print or write files.

With the same seed and number of steps, the results of two runs on the back end `cpu` or `reference`
are bitwise identical. GPUs add floats atomically in an arbitrary order, so the last bits of results
vary between runs. If `Config.deterministic` is set, gradients are added as integers, so that
results on a GPU are also bitwise identical.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache, cached_property, partial
from typing import Any, NamedTuple

import mlx.core as mx

from nerfmac.backend import Arrays, Traces, compile_seldom, compiled_ahead, is_relaxed, to_numpy
from nerfmac.common import interval
from nerfmac.fields.field import Parameters
from nerfmac.geometry import Views
from nerfmac.ops.draw_pixels import random_rays
from nerfmac.ops.loss_scale import LossScale
from nerfmac.ranks import current_ranks
from nerfmac.training import optimizer
from nerfmac.training.clock import Clock
from nerfmac.training.exchange import Exchange
from nerfmac.training.goal import Goal, Report
from nerfmac.training.measured import Measured, read, with_checks
from nerfmac.training.model import Model, key_words
from nerfmac.training.priors import Priors
from nerfmac.training.ray_budget import RayBudget
from nerfmac.training.state import TrainState
from nerfmac.training.step import Step, StepResult, is_camera_step, step_values, unpacked


class Trainer:
    """Trains a field on the views of a scene.

    A trainer stores no parameters. Each training starts from a `TrainState`, such as the result of
    `Model.init`, and yields reports that contain new states.

    Examples:
        Training yields a report before each occupancy grid update and at the end. `Goal.steps` is
        the total number of steps, so the second call in this example trains for 3 more steps.

        >>> views = scene.views("train", progress=False)
        >>> model = nerfmac.Model(nerfmac.config.PRESETS["tiny"], scene.bounds, views.cameras)
        >>> trainer = nerfmac.Trainer(model, views)
        >>> reports = list(trainer.train(model.init(views), nerfmac.Goal(steps=2)))
        >>> [report.state.step for report in reports]
        [2]
        >>> reports = list(trainer.train(reports[-1].state, nerfmac.Goal(steps=5)))
        >>> [report.state.step for report in reports]
        [4, 5]
    """

    def __init__(self, model: Model, views: Views) -> None:
        """Create a trainer without starting any computation.

        Args:
            model: Field, sampler, losses, and camera refinement.
            views: Views to train on.
        """
        self.model, self.config, self.views = model, model.config, views
        self.ranks, self.traces, self.is_compiled = current_ranks(), Traces(), False
        self._step_for = cache(self._compiled_step)
        self._averaged = self.traces.compiled(optimizer.averaged, "average")
        self._update_for = cache(self._compiled_update)

    def compile(self, state: TrainState) -> Iterator[float]:
        """Compile all computations of `train`: run each of them once, and discard the results. A
        second call compiles nothing.

        If this method is not called first, `train` compiles each computation on first use, and the
        compile time counts as training time.

        Args:
            state: State to run the computations on. The state does not change.

        Yields:
            Time of each computation in seconds. The caller can do other work between two
            computations.
        """
        if self.is_compiled:
            return
        mx.eval(state.arrays())  # now, so that it is not lost if macOS stops a launch
        self.model.check(state.parameters)
        start = time.perf_counter()
        with compiled_ahead():
            deque(self.trial(state), maxlen=0)
        for results in self.trial(state):
            with interval("compile"):
                mx.eval(results)
            yield time.perf_counter() - start
            start = time.perf_counter()
        self.is_compiled = True

    def trial(self, state: TrainState) -> Iterator[Any]:
        """Build the graph of each computation of `train` once without evaluating it.

        Args:
            state: State to start from.

        Yields:
            Result arrays of each computation: sampler updates, a step, the average, and finally
            steps with other flags that training uses later.
        """
        for phase in range(self.model.sampler.phases):
            yield self._updated(state, phase, 0.0)
        learns = is_camera_step(state.step, self.config.refine)
        yield self._one_step(state, 0.0, 0.0, learns_cameras=learns)
        yield self._average(state)
        if self.config.refine.cameras:
            yield self._one_step(state, 0.0, 0.0, learns_cameras=not learns)

    def train(self, state: TrainState, goal: Goal) -> Iterator[Report]:
        """Train until a goal is reached, with a report before every update of the sampler state.

        The caller's time between two reports does not count as training time.
        `goal.report_interval` causes additional reports without changing the results. If there are
        several ranks, all of them start from the first rank's state.

        Args:
            state: State to start from.
            goal: Limits on the total number of steps and the training time.

        Yields:
            Report with the new state.

        Raises:
            DivergedError: If the loss or a parameter is not finite, or if too many consecutive
                steps were skipped because a gradient was not finite.
        """
        exchange, clock = Exchange(self.ranks), Clock(state.train_seconds)
        last: Measured | None = None
        # The device computes a step while the host handles the report on the step before.
        for step in _one_behind(self._launch(exchange.begin(state), goal, exchange, clock)):
            if step.measured is None:
                continue
            with interval("report", step=step.state.step):
                last = read(step.measured, step.state.step, last)
            clock.read()
            yield Report.of(step.state, last, goal.progress(step.state), step.rays_per_second)
            clock.go_on()

    def _launch(
        self, state: TrainState, goal: Goal, exchange: Exchange, clock: Clock
    ) -> Iterator[Launched]:
        """Launch steps until the goal is reached, and yield each of them. At most two steps are in
        the queue of the device."""
        queue, rays_done = StepQueue(), 0
        while goal.progress(state) < 1.0:
            progress = goal.train_frac(state)
            is_updated = state.step >= state.next_update
            if is_updated:
                with interval("occupancy update", step=state.step):
                    kept = self._keep_sampling(state, progress, goal.max_rays)
                    state = exchange.synchronized(kept)
            factor = goal.rate * self.config.optimizer.factor_at(progress, state.step)
            with interval("step", step=state.step, rays=state.rays):
                state, result = self.advance(state, factor, progress)
                measured = result.measured
                queue.add(state)  # Measurements are evaluated only if they are read.
            if is_updated:
                *_, samples_per_ray = self.ranks.mean(measured)
                state = replace(state, samples_per_ray=samples_per_ray)
            rays_done += state.rays * self.ranks.size
            state = replace(state, train_seconds=exchange.seconds(state.step, clock.read()))
            state = replace(state, train_frac=goal.train_frac(state))
            is_last = goal.progress(state) >= 1.0
            is_shared = is_last or state.step >= state.next_update
            if not is_shared and not clock.is_over(goal.report_interval):
                yield Launched(state)
                continue
            checked = with_checks(self.ranks.mean(measured) if is_shared else measured, state)
            (mx.eval if is_last else mx.async_eval)(checked)
            seconds = exchange.seconds(state.step, clock.read(), must_agree=is_shared)
            state = replace(state, train_seconds=seconds)
            yield Launched(state, checked, rays_done / clock.lap())
            rays_done = 0

    def _keep_sampling(
        self, state: TrainState, train_frac: float, max_rays: int | None
    ) -> TrainState:
        """Return `state` with an updated sampler state and number of rays."""
        rays = RayBudget.of(self.config, max_rays).rays(float(to_numpy(state.samples_per_ray)))
        next_update = state.step + self.model.sampler.interval_at(state.step)
        state = replace(state, rays=rays, next_update=next_update)
        if not self.model.sampler.phases:
            return state
        phase = self.model.sampler.phase_at(state.step)
        return replace(state, sampling=self._updated(state, phase, train_frac))

    def _updated(self, state: TrainState, phase: int, train_frac: float) -> Arrays:
        """Return the sampler state after an update."""
        values = step_values(key_words(self.config.seed, state.step, stream=1), train_frac)
        return self._update_for(phase, is_relaxed())(state.parameters, state.sampling, values)

    def advance(
        self, state: TrainState, factor: float = 1.0, train_frac: float = 0.0
    ) -> tuple[TrainState, StepResult]:
        """Return the state after one step, without evaluating its arrays.

        Args:
            state: State before the step.
            factor: Factor of the configured learning rates.
            train_frac: Completed fraction of the training.

        Returns:
            New state, and the result of the step.
        """
        learns = is_camera_step(state.step, self.config.refine)
        result = self._one_step(state, factor, train_frac, learns_cameras=learns)
        changed = {**result.optimized._asdict(), "scaling": result.scale._asdict()}
        state = replace(state, step=state.step + 1, **changed)
        if optimizer.is_averaged(state.step):
            with interval("average"):
                state = replace(state, average=self._average(state))
        return state, result

    def _one_step(
        self, state: TrainState, factor: float, train_frac: float, *, learns_cameras: bool
    ) -> StepResult:
        """Return the result of a `Step`."""
        groups = self.model.refinement.rates(state.step, factor, train_frac).values()
        adam = optimizer.step_numbers(state.step + 1, factor, self.config.optimizer, groups)
        return self._step_for(state.rays, learns_cameras, is_relaxed())(
            optimizer.OptimizerState(state.parameters, state.moments),
            state.sampling,
            LossScale(**state.scaling),
            step_values(key_words(self.config.seed, state.step, stream=0), train_frac, adam),
        )

    @cached_property
    def _priors(self) -> Priors:
        """Known distances of the views, and their losses."""
        return Priors.of(self.config, self.model.bounds, self.views)

    def _compiled_step(
        self, rays: int, learns_cameras: bool, relaxed: bool
    ) -> Callable[..., StepResult]:
        step = Step(
            model=self.model,
            views=self.views,
            refinement=self.model.refinement,
            ranks=self.ranks,
            rays=rays,
            learns_cameras=learns_cameras,
            full_gradient_distance=self.config.train.gradient_scaling,
            priors=self._priors,
        )
        kind = ", moving cameras" * learns_cameras + ", with shorter launches" * relaxed
        return self.traces.compiled(step, f"step of {rays} rays{kind}")

    def _compiled_update(self, phase: int, relaxed: bool) -> Callable[..., Arrays]:
        """Return a function that updates the sampler state. In the relaxed mode, it is traced again
        with shorter launches."""
        return compile_seldom(partial(_updated_sampling, self.model, self.views, phase))

    def _average(self, state: TrainState) -> Parameters:
        step = max(state.step, 1)  # step 0 is a trial
        weight = optimizer.newest_weight(step, self.config.optimizer)
        skipped = state.scaling["skipped_in_a_row"]
        return self._averaged(state.average, state.parameters, mx.array(weight), skipped)


def _updated_sampling(
    model: Model,
    views: Views,
    phase: int,
    parameters: Parameters,
    sampling: Arrays,
    values: mx.array,
) -> Arrays:
    """Return the state of the sampler after an update in a phase. `values` is from
    `step_values`."""
    key, train_frac, _ = unpacked(values)
    ray_key, update_key = mx.random.split(key)
    cameras = model.refinement.cameras(parameters)
    rays = random_rays(views.pixels, cameras, model.sampler.update_rays, ray_key)
    rays = rays._replace(train_frac=train_frac)
    through = model.viewpoints._replace(train_frac=train_frac).through
    return model.sampler.update(parameters, sampling, rays, through, update_key, phase)


class Launched(NamedTuple):
    """Step that the host has launched and the device may still be computing."""

    state: TrainState  # state after the step
    measured: mx.array | None = None  # as returned by `with_checks`, or None without a report
    rays_per_second: float = 0.0  # mean rate since the previous report


class StepQueue:
    """Queue of at most two steps that the host has launched but the device has not finished.

    In the relaxed mode (`nerfmac.backend.watchdog`), the queue contains at most one step.
    """

    def __init__(self) -> None:
        self._steps: deque[mx.array] = deque()

    def add(self, state: TrainState) -> None:
        """Start to compute the `state` after a step, and wait while the queue contains too many
        steps."""
        with interval("launch"):
            mx.async_eval(state.arrays())
        self._steps.append(next(iter(state.parameters.values())))
        while len(self._steps) > (1 if is_relaxed() else 2):
            with interval("wait for the device"):
                mx.eval(self._steps.popleft())


def _one_behind(steps: Iterable[Launched]) -> Iterator[Launched]:
    """Yield each step after the next step has been launched."""
    before: Launched | None = None
    for step in steps:
        if before is not None:
            yield before
        before = step
    if before is not None:
        yield before
