"""`Trainer`: one step after the other, as a generator of reports.

The step (`Step`) is traced again for each new number of rays; they are few
(`TrainConfig.rays_for`). Nothing here prints or writes.

For a given seed and number of steps, results repeat bit for bit on the back ends `cpu` and
`reference`. GPUs add floats atomically, in any order, so there the last bits vary, unless
`Config.deterministic` has them add whole numbers.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from math import log10
from typing import Any

import mlx.core as mx
import numpy as np

from nerfmac.backend import Arrays, Shapes, Traces, compile_ahead, compile_seldom
from nerfmac.common.checks import InputError
from nerfmac.common.timeline import interval
from nerfmac.config import FILL, Config
from nerfmac.fields.field import Parameters
from nerfmac.geometry.cameras import Camera, Cameras
from nerfmac.ops.draw_pixels import random_rays, ray_batches
from nerfmac.ops.march import Occupied
from nerfmac.ranks import current_ranks
from nerfmac.rendering.renderer import Renderer, tracer_of
from nerfmac.scenes import Views
from nerfmac.training.clock import Clock, RanksTime
from nerfmac.training.corrections import Corrections
from nerfmac.training.exchange import Meeting, kept_alike, of_first
from nerfmac.training.goal import Goal, Report
from nerfmac.training.loss_scale import LossScale
from nerfmac.training.measured import Measured, read
from nerfmac.training.method import Method, Parts
from nerfmac.training.optimiser import (
    Updated,
    averaged,
    is_averaged,
    newest_weight,
    no_moments,
    step_numbers,
)
from nerfmac.training.state import TrainState
from nerfmac.training.step import Kind, Step
from nerfmac.training.steps_under_way import Queue

FIRST_RAYS = 2**18  # at most, by which a sampler learns before training what is in view


class Trainer:
    """Trains a field on the views of one scene."""

    def __init__(
        self,
        config: Config,
        extent: float,
        views: Views | None = None,
        method: Method = Method(),  # noqa: B008 - a frozen value
        cameras: Sequence[Camera] = (),
    ) -> None:
        """
        Args:
            config: every number.
            extent: side of the scene's cube, in scene units.
            views: the training split; None for rendering only.
            method: a field, a sampler or a loss in place of the configuration's.
            cameras: those of the training views, if `views` is None.
        """
        self.config, self.extent, self.method = config, extent, method
        self.ranks = current_ranks()
        self._meeting = Meeting(self.ranks, config.ranks)
        self.field, self.sampler, self.loss = method.parts(config, extent)
        self._given_views = views
        stacked = Cameras.stack(cameras) if cameras else None
        self.corrections = Corrections(config.refine, views.cameras if views else stacked)
        self.traces = Traces()
        self._step_for = cache(self._compiled_step)
        self._averaged = self.traces.compiled(_averaged_if_good, "average")
        self._update_sampling = [
            compile_seldom(partial(self._sampling_step, phase))
            for phase in range(self.sampler.phases)
        ]

    def without_views(self, cameras: Sequence[Camera]) -> Trainer:
        """Another trainer of the same, for any thread, that can only render; `cameras` as above."""
        return Trainer(self.config, self.extent, None, self.method, cameras)

    @property
    def shapes(self) -> Shapes:
        """The shapes of a state's arrays, by the names of `TrainState.arrays`."""
        parameters = {**self.field.shapes, **self.corrections.shapes}
        return TrainState.shapes(parameters, self.sampler.shapes)

    @property
    def has_views(self) -> bool:
        """Whether there are views to train on; without, it can only render."""
        return self._given_views is not None

    def _compiled_step(
        self, rays: int, kind: Kind
    ) -> Callable[..., tuple[Updated, Arrays, mx.array]]:
        parts = Parts(self.field, self.sampler, self.loss)
        # Cameras of an object alone stand outside of its cube: nothing is in front of them.
        full = self.config.train.gradient_scaling if self.extent > 1 else 0.0
        step = Step(
            *(self.config.train, parts, self.views, self.corrections),
            *(self.ranks, self.config.ranks, self.config.deterministic, full),
        )
        return self.traces.compiled(partial(step, rays, kind), f"step of {rays} rays{kind}")

    @property
    def views(self) -> Views:
        """The views to train on; raises `InputError` if there are none."""
        if self._given_views is None:
            raise InputError("this trainer was made without views; it can only render")
        return self._given_views

    def init(self) -> TrainState:
        """The state before the first step."""
        views, key = self.views, _key(self.config.seed, 0, stream=3)
        parameters = self.field.init(_key(self.config.seed, 0, stream=2))
        parameters |= self.corrections.init()
        return TrainState(
            parameters=parameters,
            average=parameters,
            moments=no_moments(parameters),
            sampling=self.sampler.init(ray_batches(views.pixels, views.cameras, FIRST_RAYS, key)),
            scaling=LossScale.init(self.config.train.loss_scale)._asdict(),
            samples_per_ray=mx.array(FILL * self.config.march.max_samples / self.config.train.rays),
            rays=self.config.train.rays,
        )

    def compile(self, state: TrainState) -> Iterator[float]:
        """Build and compile all that `train` runs: run each part once and drop the results.

        Yields the seconds that each part took, so that the caller can do other things in between.
        Without this, `train` compiles on first use, in training time.
        """
        start = time.perf_counter()
        compile_ahead(lambda: deque(self.trial(state), maxlen=0))
        for results in self.trial(state):
            with interval("compile"):
                mx.eval(results)
            yield time.perf_counter() - start
            start = time.perf_counter()

    def trial(self, state: TrainState) -> Iterator[Any]:
        """All that `train` computes, once each, not evaluated: updates, a step, the average.

        Last come steps of other kinds, where training has some.
        """
        key = _key(self.config.seed, 0, stream=1)
        for update in self._update_sampling:
            yield update(state.parameters, state.sampling, key)
        now = Kind.at(state.step, self.config.refine)
        yield self._one_step(state, now, 0.0, 0.0)
        yield self._average(state), self._meeting.trial(state)
        for kind in Kind.others(now, self.config.refine):
            yield self._one_step(state, kind, 0.0, 0.0)

    def renderer(self, state: TrainState, occupied: Occupied | None = None) -> Renderer:
        """A renderer of the field in `state`.

        `occupied`: the cells to sample in, in place of those that the sampler knows of.
        """
        slots = self.config.march.max_samples
        sampled = self.sampler, state.sampling
        return Renderer(tracer_of(self.field, state.average, *sampled, slots, occupied))

    def train(self, state: TrainState, goal: Goal) -> Iterator[Report]:
        """Train on from `state` to the goal, with a report at every update of the sampler's state.

        The time that the caller takes between two reports is not training time. The reports that
        `goal.report_interval` adds do not change the results. Several ranks begin with the first
        one's state, and all their other reports are of parameters that they have in common. Raises
        `DivergedError`.
        """
        state = of_first(self.ranks, state)
        self._meeting.begin(state)
        clock, queue, rays_done = Clock(state.train_seconds), Queue(), 0
        found: Measured | None = None
        common = RanksTime(self.ranks, state.step, state.train_seconds)
        while (progress := goal.progress(state)) < 1.0:
            if self._is_update_at(state.step):
                with interval("occupancy update", step=state.step):
                    state = self._keep_sampling(state, goal.most_rays)
            rays_done += state.rays * self.ranks.size
            rate = goal.rate * self.config.optimiser.rate_at(progress, state.step)
            with interval("step", step=state.step, rays=state.rays):
                state, measured = self.advance(state, rate, progress)
                queue.add(state)  # measurements are computed only where they are read
            state = replace(state, train_seconds=common.at(state.step, clock.read()))
            is_measured = self._is_report_at(state.step) or goal.progress(state) >= 1.0
            if is_measured or clock.is_over(goal.report_interval):
                if is_measured:
                    measured = self.ranks.mean(measured)
                    state = self._meeting.end(state, must_meet=True)
                with interval("report", step=state.step):
                    found = read(measured, state, found)
                seconds = common.at(state.step, clock.read(), must_agree=is_measured)
                wanted = mx.array(found.slots_per_ray) if is_measured else state.samples_per_ray
                state = replace(state, train_seconds=seconds, samples_per_ray=wanted)
                rays_per_second = rays_done / clock.lap()
                yield Report(
                    state=state,
                    loss=found.loss,
                    psnr=-10.0 * log10(max(found.error, 1e-10)),
                    progress=min(goal.progress(state), 1.0),
                    rays_per_second=rays_per_second,
                    samples_per_second=rays_per_second * found.samples / state.rays,
                    skipped_steps=found.skipped_steps,
                    is_skipped=found.is_skipped,
                )
                rays_done = 0
                clock.go_on()

    def _is_update_at(self, step: int) -> bool:
        """Whether the sampler's state is updated before the step that follows `step`."""
        return step % self.sampler.interval_at(step) == 0

    def _is_report_at(self, step: int) -> bool:
        """Whether there is a report after `step`: after an update; where ranks meet, before one."""
        return self._is_update_at(step if self._meeting.is_on else step - 1)

    def _keep_sampling(self, state: TrainState, most_rays: int | None) -> TrainState:
        """`state` with the sampler's state updated and the number of rays chosen again."""
        rays = self.config.train.rays_for(
            float(np.array(state.samples_per_ray)), self.config.march.max_samples, most_rays
        )
        state = replace(state, rays=rays)
        if not self._update_sampling:
            return state
        update = self._update_sampling[self.sampler.phase_at(state.step)]
        key = _key(self.config.seed, state.step, stream=1)
        state = replace(state, sampling=update(state.parameters, state.sampling, key))
        return kept_alike(self.ranks, state)

    def advance(
        self, state: TrainState, rate: float, progress: float = 0.0
    ) -> tuple[TrainState, mx.array]:
        """The state after one step at the learning rate `rate`, and what the `Step` measured.

        `progress` of the run is done before. Nothing is evaluated.
        """
        kind = Kind.at(state.step, self.config.refine)
        updated, scaling, measured = self._one_step(state, kind, rate, progress)
        state = replace(state, step=state.step + 1, scaling=scaling, **updated._asdict())
        averages = is_averaged(state.step)  # of parameters that all ranks have
        state = self._meeting.end(state, must_meet=averages or self._is_update_at(state.step))
        if averages:
            with interval("average"):
                state = replace(state, average=self._average(state))
        return state, measured

    def _one_step(
        self, state: TrainState, kind: Kind, rate: float, progress: float
    ) -> tuple[Updated, Arrays, mx.array]:
        """What a step of this kind changes, and what it measured, as `Step` has it."""
        optimiser = self.config.optimiser
        own = self.corrections.rates(state.step, rate / optimiser.rate, progress)
        updated, scaling, measured = self._step_for(state.rays, kind)(
            Updated(state.parameters, state.moments),
            state.sampling,
            state.scaling,
            _key(self.config.seed, state.step, stream=0),
            step_numbers(state.step + 1, rate, optimiser, own),
            mx.array(self.config.refine.detail_at(state.step)),
        )
        return Updated(*updated), scaling, measured

    def _average(self, state: TrainState) -> Parameters:
        weight = newest_weight(max(state.step, 1), self.config.optimiser)  # step 0 is a trial
        skipped = state.scaling["skipped_in_a_row"]
        return self._averaged(state.average, state.parameters, mx.array(weight), skipped)

    def _sampling_step(
        self, phase: int, parameters: Parameters, sampling: Arrays, key: mx.array
    ) -> Arrays:
        place, own = mx.random.split(key)
        views = self.views
        cameras = self.corrections.cameras(parameters)
        rays = random_rays(views.pixels, cameras, self.sampler.update_rays, place)
        return self.sampler.update(parameters, sampling, rays, own, phase)


def _averaged_if_good(
    average: Parameters, parameters: Parameters, weight: mx.array, skipped_in_a_row: mx.array
) -> Parameters:
    """The average after a step; a skipped step does not change it."""
    return averaged(average, parameters, mx.where(skipped_in_a_row == 0, weight, 0.0))


def _key(seed: int, step: int, *, stream: int) -> mx.array:
    """The random key of a step; there is a stream for steps, sampling and initial values each."""
    # Streams are 2^32 over the golden ratio apart, so that a seed's stream is not also the stream
    # of a seed near by.
    return mx.array([(seed + stream * 0x9E3779B9) % 2**32, step], mx.uint32)
