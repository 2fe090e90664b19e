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
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache, cached_property, partial
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from nerfmac.backend import Arrays, Shapes, Traces, compile_ahead, compile_seldom, to_numpy
from nerfmac.backend.variants import tuned_for
from nerfmac.backend.watchdog import is_relaxed
from nerfmac.common import InputError, interval
from nerfmac.config import Config
from nerfmac.fields.consistency import check_density
from nerfmac.fields.field import Parameters, shapes_of
from nerfmac.geometry import Bounds, Camera, Cameras, Rays, Views, rays_through
from nerfmac.ops.draw_pixels import Drawn, draw_pixels, pixel_batches, random_rays
from nerfmac.ops.loss_scale import LossScale
from nerfmac.ops.march import Occupied
from nerfmac.ops.sensor_depth import sensor_depth
from nerfmac.ranks import current_ranks
from nerfmac.refine.refinement import CameraRefinement
from nerfmac.rendering.renderer import Renderer, TrainedField
from nerfmac.training.clock import Clock
from nerfmac.training.exchange import Exchange
from nerfmac.training.goal import Goal, Report
from nerfmac.training.measured import Measured, read, with_checks
from nerfmac.training.method import Method, Parts
from nerfmac.training.optimizer import (
    OptimizerState,
    averaged,
    is_averaged,
    newest_weight,
    no_moments,
    step_numbers,
)
from nerfmac.training.priors import Priors
from nerfmac.training.ray_budget import RayBudget
from nerfmac.training.resolve import settled
from nerfmac.training.state import TrainState
from nerfmac.training.step import RayErrors, Step, StepFlags, StepResult, step_values, unpacked

RAYS_PER_FACE_CELL = 16
"""Maximum number of random training rays for computing the sampler's initial state, divided by the
number of cells in one face of the occupancy grid."""

PREVIEW_RAYS = 2**12
"""Number of random rays from which `Trainer.preview` computes the sampler state."""


class Trainer:
    """Trains a field on the views of a scene.

    A trainer stores no parameters. Each training starts from a `TrainState` and yields reports that
    contain new states.

    Examples:
        Training yields a report before each occupancy grid update and at the end. `Goal.steps` is
        the total number of steps, so the second call in this example trains for 3 more steps.

        >>> views = scene.views("train", progress=False)
        >>> trainer = nerfmac.Trainer(nerfmac.config.PRESETS["tiny"], scene.bounds, views)
        >>> reports = list(trainer.train(trainer.init(), nerfmac.Goal(steps=2)))
        >>> [report.state.step for report in reports]
        [2]
        >>> reports = list(trainer.train(reports[-1].state, nerfmac.Goal(steps=5)))
        >>> [report.state.step for report in reports]
        [4, 5]
        >>> camera = scene.splits["test"][0].camera
        >>> trainer.renderer(reports[-1].state).render(camera).color.shape
        (128, 128, 3)
    """

    def __init__(
        self,
        config: Config,
        bounds: Bounds,
        views: Views | None = None,
        method: Method = Method(),  # noqa: B008 - a frozen value
        cameras: Sequence[Camera] = (),
        parts: Parts | None = None,
    ) -> None:
        """Create the field, the sampler, and the losses without starting any computation.

        Args:
            config: All settings of the run. Settings that are automatic, because `resolve` has not
                been called, have the values for an unknown scene.
            bounds: The scene cube.
            views: Views to train on, or None for a trainer that only renders.
            method: Custom field, sampler, or losses.
            cameras: Cameras of the training views, if `views` is None.
            parts: Result of `method.parts` with the same configuration, or None to create it.

        Raises:
            InputError: If the components of the method do not match.
        """
        self.config = config = settled(config, bounds)
        self.bounds, self.method = bounds, method
        self.ranks = current_ranks()
        stacked = Cameras.stack(cameras) if cameras else None
        initial = views.cameras if views else stacked
        self.parts = parts or method.parts(config, bounds, initial)
        self.field, self.sampler = self.parts.field, self.parts.sampler
        self._given_views = views
        self.is_compiled = False
        self.refinement = CameraRefinement(config.refine, initial)
        self.traces = Traces()
        self._step_for = cache(self._compiled_step)
        self._averaged = self.traces.compiled(averaged, "average")
        self._update_for = cache(self._compiled_update)

    def without_views(self, cameras: Sequence[Camera]) -> Trainer:
        """Return a trainer for the same model that can only render. The trainer can be used on any
        thread.

        Args:
            cameras: Cameras of the training views.

        Returns:
            Trainer with the same configuration and method, without views.
        """
        return Trainer(self.config, self.bounds, None, self.method, cameras, self.parts)

    @property
    def shapes(self) -> Shapes:
        """Shapes of the arrays in a training state, keyed by the names in `TrainState.arrays`."""
        parameters = shapes_of(self.parts.parameter_specs) | self.refinement.shapes
        return TrainState.shapes(parameters, self.sampler.shapes)

    @property
    def has_views(self) -> bool:
        """Whether the trainer has views to train on. If False, it can only render."""
        return self._given_views is not None

    @property
    def views(self) -> Views:
        """The views to train on.

        Raises:
            InputError: If the trainer has no views and can only render.
        """
        if self._given_views is None:
            raise InputError("this trainer was created without views and can only render")
        return self._given_views

    def init(self) -> TrainState:
        """Return the training state before the first step.

        Returns:
            State with random initial parameters and the initial sampler state.
        """
        views, key = self.views, _key(self.config.seed, 0, stream=3)
        most = RAYS_PER_FACE_CELL * self.config.occupancy.resolution**2
        pixels, cameras, maps = views.pixels, views.cameras, views.depth

        def drawn() -> Iterator[tuple[mx.array, Drawn]]:
            for index in pixel_batches(cameras, most, key):
                yield index, draw_pixels(pixels, cameras, index)

        state = self._init(batch.rays for _, batch in drawn())
        if maps is None or not self.config.train.sensor:
            return state
        measured = (
            (batch.rays, sensor_depth(maps, cameras, index, batch.view)) for index, batch in drawn()
        )
        return replace(state, sampling=self.sampler.with_depth(state.sampling, measured))

    def preview(self, cameras: Sequence[Camera]) -> TrainState:
        """Return an approximate initial state, computed from few rays and without images.

        The method is much faster than `init`. The state is sufficient for low-resolution renderings
        but not for training.

        Args:
            cameras: Cameras of the training views.

        Returns:
            State with random initial parameters and an approximate sampler state.
        """
        stacked = Cameras.stack(cameras)
        drawn = mx.random.uniform(shape=(3, PREVIEW_RAYS), key=_key(self.config.seed, 0, stream=3))
        view = (drawn[0] * len(cameras)).astype(mx.int32)
        pixel = drawn[1:].T * mx.array(stacked.sizes, mx.float32)[view]
        return replace(self._init([rays_through(stacked, view, pixel)]), rays=0)

    def _init(self, rays: Iterable[Rays]) -> TrainState:
        rays_at_first = self.config.train.rays
        parameters = self.field.init(_key(self.config.seed, 0, stream=2))
        self._check(parameters)
        parameters |= self.sampler.init_parameters(_key(self.config.seed, 0, stream=4))
        parameters |= self.refinement.init()
        return TrainState(
            parameters=parameters,
            average=parameters,
            moments=no_moments(parameters),
            sampling=self.sampler.init(rays),
            scaling=LossScale.init(self.config.train.loss_scale)._asdict(),
            samples_per_ray=mx.array(RayBudget.of(self.config).samples_per_ray(rays_at_first)),
            rays=rays_at_first,
        )

    def _check(self, parameters: Parameters) -> None:
        """Raise `InputError` if a custom field has two different densities."""
        if self.method.field is not None:
            own = {name: parameters[name] for name in self.field.parameter_specs}
            check_density(self.field, own, self.bounds, self.parts.viewpoints)

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
        self._check(state.parameters)
        start = time.perf_counter()
        compile_ahead(lambda: deque(self.trial(state), maxlen=0))
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
        for phase in range(self.sampler.phases):
            yield self._updated(state, phase, 0.0)
        flags = StepFlags.at(state.step, self.config.refine)
        yield self._one_step(state, flags, 0.0, 0.0)
        yield self._average(state)
        for later in StepFlags.later(flags, self.config.refine):
            yield self._one_step(state, later, 0.0, 0.0)

    def renderer(self, state: TrainState, occupied: Occupied | None = None) -> Renderer:
        """Return a renderer for the field in a training state.

        Args:
            state: State of the training.
            occupied: Cells to sample. By default, the occupied cells of the sampler.

        Returns:
            Renderer that evaluates the field with averaged parameters.
        """
        return self.trained(state).renderer(occupied)

    def trained(self, state: TrainState) -> TrainedField:
        """Return the field with the averaged parameters of a training state.

        Args:
            state: State of the training.

        Returns:
            Field, parameters, and sampler for rendering.
        """
        viewpoints = self.parts.viewpoints._replace(train_frac=state.train_frac)
        slots, sampling = self.config.march.max_samples, (self.sampler, state.sampling)
        return TrainedField(self.field, state.average, *sampling, slots, viewpoints)

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
            report = Report.of(step.state, last, goal.progress(step.state), step.rays_per_second)
            yield replace(report, errors=step.errors)
            clock.go_on()

    def _launch(
        self, state: TrainState, goal: Goal, exchange: Exchange, clock: Clock
    ) -> Iterator[Launched]:
        """Launch steps until the goal is reached, and yield each of them. At most two steps are in
        the queue of the device."""
        queue, rays_done = StepQueue(), 0
        while (progress := goal.progress(state)) < 1.0:
            is_updated = state.step >= state.next_update
            if is_updated:
                with interval("occupancy update", step=state.step):
                    kept = self._keep_sampling(state, progress, goal.max_rays)
                    state = exchange.synchronized(kept)
            factor = goal.rate * self.config.optimizer.factor_at(progress, state.step)
            with interval("step", step=state.step, rays=state.rays):
                state, result = self._advance(state, factor, progress)
                measured = result.measured
                queue.add(state)  # Measurements are evaluated only if they are read.
            if is_updated:
                *_, samples_per_ray = exchange.mean(measured)
                state = replace(state, samples_per_ray=samples_per_ray)
            rays_done += state.rays * self.ranks.size
            state = replace(state, train_seconds=exchange.seconds(state.step, clock.read()))
            state = replace(state, train_frac=min(goal.progress(state), 1.0))
            is_last = goal.progress(state) >= 1.0
            is_shared = is_last or state.step >= state.next_update
            if not is_shared and not clock.is_over(goal.report_interval):
                yield Launched(state)
                continue
            checked = with_checks(exchange.mean(measured) if is_shared else measured, state)
            (mx.eval if is_last else mx.async_eval)(checked)
            seconds = exchange.seconds(state.step, clock.read(), must_agree=is_shared)
            state = replace(state, train_seconds=seconds)
            yield Launched(state, checked, rays_done / clock.lap(), result.errors)
            rays_done = 0

    def _keep_sampling(
        self, state: TrainState, train_frac: float, max_rays: int | None
    ) -> TrainState:
        """Return `state` with an updated sampler state and number of rays."""
        rays = RayBudget.of(self.config, max_rays).rays(float(to_numpy(state.samples_per_ray)))
        next_update = state.step + self.sampler.interval_at(state.step)
        state = replace(state, rays=rays, next_update=next_update)
        if not self.sampler.phases:
            return state
        phase = self.sampler.phase_at(state.step)
        return replace(state, sampling=self._updated(state, phase, train_frac))

    def _updated(self, state: TrainState, phase: int, train_frac: float) -> Arrays:
        """Return the sampler state after an update."""
        values = step_values(_key_words(self.config.seed, state.step, stream=1), train_frac)
        return self._update_for(phase, is_relaxed())(state.parameters, state.sampling, values)

    def advance(
        self, state: TrainState, factor: float = 1.0, train_frac: float = 0.0
    ) -> tuple[TrainState, mx.array]:
        """Return the state after one step, without evaluating its arrays.

        Args:
            state: State before the step.
            factor: Factor of the configured learning rates.
            train_frac: Completed fraction of the training.

        Returns:
            New state, and the measurements of the step (`StepResult.measured`).
        """
        state, result = self._advance(state, factor, train_frac)
        return state, result.measured

    def _advance(
        self, state: TrainState, factor: float, train_frac: float
    ) -> tuple[TrainState, StepResult]:
        flags = StepFlags.at(state.step, self.config.refine)
        result = self._one_step(state, flags, factor, train_frac)
        changed = {**result.optimized._asdict(), "scaling": result.scale._asdict()}
        state = replace(state, step=state.step + 1, **changed)
        if is_averaged(state.step):
            with interval("average"):
                state = replace(state, average=self._average(state))
        return state, result

    def _one_step(
        self, state: TrainState, flags: StepFlags, factor: float, train_frac: float
    ) -> StepResult:
        """Return the result of a `Step` with the given flags."""
        groups = self.refinement.rates(state.step, factor, train_frac)
        return self._step_for(state.rays, flags, is_relaxed())(
            OptimizerState(state.parameters, state.moments),
            state.sampling,
            LossScale(**state.scaling),
            step_values(
                _key_words(self.config.seed, state.step, stream=0),
                train_frac,
                step_numbers(state.step + 1, factor, self.config.optimizer, groups.values()),
            ),
        )

    @cached_property
    def _priors(self) -> Priors:
        """Known distances of the views, and their losses."""
        return Priors.of(self.config, self.bounds, self.views)

    def _compiled_step(
        self, rays: int, flags: StepFlags, relaxed: bool
    ) -> Callable[..., StepResult]:
        step = Step(
            config=self.config,
            parts=self.parts,
            views=self.views,
            refinement=self.refinement,
            ranks=self.ranks,
            rays=rays,
            flags=flags,
            full_gradient_distance=self.config.train.gradient_scaling,
            priors=self._priors,
        )
        tuned = tuned_for(self.config)(step)
        shorter = ", with shorter launches" if relaxed else ""
        return self.traces.compiled(tuned, f"step of {rays} rays{flags}{shorter}")

    def _compiled_update(self, phase: int, relaxed: bool) -> Callable[..., Arrays]:
        """Return a function that updates the sampler state. In the relaxed mode, it is traced again
        with shorter launches."""
        return compile_seldom(tuned_for(self.config)(partial(self._sampling_step, phase)))

    def _average(self, state: TrainState) -> Parameters:
        weight = newest_weight(max(state.step, 1), self.config.optimizer)  # step 0 is a trial
        skipped = state.scaling["skipped_in_a_row"]
        return self._averaged(state.average, state.parameters, mx.array(weight), skipped)

    def _sampling_step(
        self, phase: int, parameters: Parameters, sampling: Arrays, values: mx.array
    ) -> Arrays:
        key, train_frac, _ = unpacked(values)
        ray_key, update_key = mx.random.split(key)
        views, cameras = self.views, self.refinement.cameras(parameters)
        rays = random_rays(views.pixels, cameras, self.sampler.update_rays, ray_key)
        rays = rays._replace(train_frac=train_frac)
        through = self.parts.viewpoints._replace(train_frac=train_frac).through
        return self.sampler.update(parameters, sampling, rays, through, update_key, phase)


class Launched(NamedTuple):
    """Step that the host has launched and the device may still be computing."""

    state: TrainState  # state after the step
    measured: mx.array | None = None  # as returned by `with_checks`, or None without a report
    rays_per_second: float = 0.0  # mean rate since the previous report
    errors: RayErrors | None = None


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


def _key(seed: int, step: int, *, stream: int) -> mx.array:
    """Return the random key of a step. Steps, sampling, and initial values use different
    `stream`s."""
    return mx.array(_key_words(seed, step, stream=stream))


def _key_words(seed: int, step: int, *, stream: int) -> npt.NDArray[np.uint32]:
    # The offset between streams is 2^32 / golden ratio, so that similar seeds do not share a
    # stream.
    return np.array([(seed + stream * 0x9E3779B9) % 2**32, step], np.uint32)
