"""The compiled training step, and `Trainer.fit`: a generator of reports.

One step is one compiled function, the same on every back end: pixels drawn, rays marched, field
evaluated, composited and compared, gradients taken, parameters moved. Shapes are fixed but for the
number of rays, which follows the samples per ray along a ladder of few sizes, since each new size
traces the step again. Nothing here prints or writes.

For a given seed and number of steps results repeat bit for bit on the `cpu` and `reference` back
ends; GPUs add floats atomically, in any order, which leaves the last bits open.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from math import isfinite, log10
from typing import Any

import mlx.core as mx
import numpy as np

from nerfmac.checks import InputError
from nerfmac.config import FILL, Config
from nerfmac.fields.encoded import Parameters, RadianceField
from nerfmac.geometry.colour import over
from nerfmac.ops.draw_pixels import draw_pixels
from nerfmac.ops.march import march
from nerfmac.rendering.renderer import Renderer, shade
from nerfmac.sampling.occupancy import Occupancy, OccupancyGrid, march_geometry
from nerfmac.scenes import Views
from nerfmac.training.clock import Clock
from nerfmac.training.losses import huber
from nerfmac.training.optimiser import (
    StepNumbers,
    Updated,
    adam,
    averaged,
    is_averaged,
    newest_weight,
    step_numbers,
    zeros_like,
)
from nerfmac.training.state import Shapes, TrainState


class DivergedError(RuntimeError):
    """The loss or a parameter is no longer finite; the message says at which step."""


@dataclass
class Goal:
    """How far to train, and how. `Trainer.train` reads it at every step: it may change meanwhile.

    Without a limit training goes on for good, at the first learning rate.
    """

    steps: int | None = None  # in all
    seconds: float | None = None  # of training, in all
    rate: float = 1.0  # factor on the learning rate
    most_rays: int | None = None  # of a step; None: the configuration's
    turn: float | None = None  # seconds between reports, at most; None: a report an update

    def progress(self, state: TrainState) -> float:
        """How much of the way is done; 1 or more at the end."""
        by_steps = state.step / self.steps if self.steps else 0.0
        by_seconds = state.train_seconds / self.seconds if self.seconds else 0.0
        return max(by_steps, by_seconds)


@dataclass(frozen=True)
class Report:
    """How training stands after some step."""

    state: TrainState
    loss: float
    psnr: float  # dB, of the last step's pixels
    progress: float  # in [0, 1], of the steps or seconds asked for
    rays_per_second: float  # since the last report
    samples_per_second: float


class Queue:
    """Steps that the device has still to do while the host builds the next: never more than two."""

    def __init__(self) -> None:
        self._steps: deque[mx.array] = deque()

    def add(self, state: TrainState) -> None:
        """Begin the step that ends in `state`, and wait for the last but two."""
        mx.async_eval(state.arrays())
        self._steps.append(state.parameters["colour"])
        if len(self._steps) > 2:
            mx.eval(self._steps.popleft())


class Trainer:
    """Trains a field on the views of one scene."""

    def __init__(self, config: Config, extent: float, views: Views | None = None) -> None:
        """`extent`: side of the scene's cube; `views`: the training split; None only to render."""
        self.config = config
        self.field = RadianceField(config, extent)
        self.geometry = march_geometry(config, extent)
        self._grid = OccupancyGrid(config.occupancy, self.geometry)
        self._given_views = views
        self._step_for = cache(lambda rays: mx.compile(partial(self._step, rays)))
        self._averaged = mx.compile(averaged)
        self._update_occupancy = {
            warmup: mx.compile(partial(self._occupancy_step, warmup)) for warmup in (True, False)
        }

    @property
    def shapes(self) -> Shapes:
        """The shapes of a state's arrays, by the names of `TrainState.arrays`."""
        return TrainState.shapes(self.field.shapes, self.geometry.cells)

    @property
    def _views(self) -> Views:
        if self._given_views is None:
            raise InputError("this trainer was made without views; it can only render")
        return self._given_views

    def init(self) -> TrainState:
        """The state before the first step."""
        parameters = self.field.init(_key(self.config.seed, 0, stream=2))
        return TrainState(
            parameters=parameters,
            average=parameters,
            first_moment=zeros_like(parameters),
            second_moment=zeros_like(parameters),
            occupancy=self._grid.init(self._views.cameras),
            samples_per_ray=mx.array(FILL * self.config.train.slots / self.config.train.rays),
            rays=self.config.train.rays,
        )

    def compile(self, state: TrainState) -> float:
        """Build and compile all that `fit` runs, by running it once in vain; return the seconds.

        `fit` does so by itself on first use, but then as part of the training time.
        """
        start = time.perf_counter()
        for results in self.trial(state):
            mx.eval(results)
        return time.perf_counter() - start

    def trial(self, state: TrainState) -> Iterator[Any]:
        """All that `fit` computes, once each and not evaluated.

        Both occupancy updates, a step, and the average of the parameters.
        """
        key = _key(self.config.seed, 0, stream=1)
        for warmup in (True, False):
            yield self._update_occupancy[warmup](state.parameters, state.occupancy, key)
        after, measured = self.advance(state, rate=0.0)
        yield after.arrays(), measured
        yield self._average(state)

    def renderer(self, state: TrainState) -> Renderer:
        """For pictures of the field as it stands."""
        slots = self.config.train.slots
        return Renderer(self.field, self.geometry, state.average, state.occupancy.bits, slots)

    def fit(
        self, state: TrainState, *, steps: int | None = None, seconds: float | None = None
    ) -> Iterator[Report]:
        """Train on from `state`, to `steps` in all or to `seconds` of training in all."""
        return self.train(state, Goal(steps, seconds))

    def train(self, state: TrainState, goal: Goal) -> Iterator[Report]:
        """Train on from `state` to the goal, with a report at every update of the occupancy grid.

        The time the caller spends between two reports is not training time. Reports that
        `goal.turn` adds change nothing in what is trained. Raises `DivergedError`.
        """
        clock, queue, rays_done = Clock(state.train_seconds), Queue(), 0
        while (progress := goal.progress(state)) < 1.0:
            is_update = state.step % self.config.occupancy.interval_at(state.step) == 0
            if is_update:
                state = self._keep_occupancy(state, goal.most_rays)
            rays_done += state.rays
            rate = goal.rate * self.config.optimiser.rate_at(progress)
            state, measured = self.advance(state, rate)
            queue.add(state)  # what is measured is computed only where it is read
            state = replace(state, train_seconds=clock.read())
            is_measured = is_update or goal.progress(state) >= 1.0
            if is_measured or clock.is_over(goal.turn):
                loss, error, samples, wanted = _read(measured, state)
                state = replace(state, train_seconds=clock.read())
                if is_measured:
                    state = replace(state, samples_per_ray=mx.array(wanted))
                rays_per_second = rays_done / clock.lap()
                yield Report(
                    state=state,
                    loss=loss,
                    psnr=-10.0 * log10(max(error, 1e-10)),
                    progress=min(goal.progress(state), 1.0),
                    rays_per_second=rays_per_second,
                    samples_per_second=rays_per_second * samples / state.rays,
                )
                rays_done = 0
                clock.go_on()

    def _keep_occupancy(self, state: TrainState, most_rays: int | None) -> TrainState:
        warmup = state.step < self.config.occupancy.warmup_steps
        values, bits = self._update_occupancy[warmup](
            state.parameters, state.occupancy, _key(self.config.seed, state.step, stream=1)
        )
        rays = self.config.train.rays_for(float(np.array(state.samples_per_ray)), most_rays)
        return replace(state, occupancy=Occupancy(values, bits), rays=rays)

    def advance(self, state: TrainState, rate: float) -> tuple[TrainState, mx.array]:
        """One step at this learning rate, and what it measured; nothing is evaluated."""
        unscale = 1.0 / self.config.train.loss_scale
        updated, measured = self._step_for(state.rays)(
            Updated(state.parameters, state.first_moment, state.second_moment),
            state.occupancy.bits,
            _key(self.config.seed, state.step, stream=0),
            step_numbers(state.step + 1, rate, self.config.optimiser, unscale),
        )
        state = replace(state, step=state.step + 1, **Updated(*updated)._asdict())
        if is_averaged(state.step):
            state = replace(state, average=self._average(state))
        return state, measured

    def _average(self, state: TrainState) -> Parameters:
        weight = newest_weight(max(state.step, 1), self.config.optimiser)  # 0: on trial
        return self._averaged(state.average, state.parameters, mx.array(weight))

    def _step(
        self,
        rays: int,
        now: Updated,
        bits: mx.array,
        key: mx.array,
        numbers: StepNumbers,
    ) -> tuple[Any, mx.array]:
        """One update; returns it and [loss, mean squared error, samples, samples wanted a ray]."""
        config = self.config.train
        # All that is left to chance, in one draw: each is a launch of its own.
        drawn = mx.random.uniform(shape=(7, rays), key=key)
        shares, jitter, background = mx.split(drawn, (3, 4))
        (origins, directions), rgba = draw_pixels(self._views.images, self._views.cameras, shares)
        samples = march(
            origins, directions, jitter.reshape(rays), bits, self.geometry, config.slots
        )
        # A new background for every ray: matter cannot pass for it.
        background = background.reshape(rays, 3)
        target = over(rgba, background, config.blend)
        fits = samples.fits[:, None].astype(mx.float32)
        share = fits / mx.maximum(3.0 * fits.sum(), 1.0)

        def loss_of(parameters: Parameters) -> tuple[mx.array, mx.array]:
            seen = shade(self.field, parameters, samples, directions)
            predicted = seen.colour + (1.0 - seen.opacity[:, None]) * background
            loss = (huber(predicted, target, config.huber) * share).sum()
            return config.loss_scale * loss, (mx.square(predicted - target) * share).sum()

        (loss, error), gradients = mx.value_and_grad(loss_of)(now.parameters)
        updated = adam(Updated(*now), gradients, StepNumbers(*numbers))
        used = samples.ray_start[-1].astype(mx.float32)
        wanted = samples.wanted.astype(mx.float32).mean()
        return updated, mx.stack([loss / config.loss_scale, error, used, wanted])

    def _occupancy_step(
        self, warmup: bool, parameters: Parameters, occupancy: Any, key: mx.array
    ) -> Occupancy:
        def density(position: mx.array) -> mx.array:
            return self.field.density(parameters, position)

        return self._grid.update(Occupancy(*occupancy), density, key, warmup=warmup)


def _are_finite(parameters: Parameters) -> bool:
    # What is not finite makes their sum so, in a single pass over them.
    return all(bool(mx.isfinite(values.sum())) for values in parameters.values())


def _read(measured: mx.array, state: TrainState) -> tuple[float, float, float, float]:
    """What `Trainer._step` measured, from the device. Raises `DivergedError`."""
    loss, error, samples, wanted = map(float, np.array(measured))
    if not isfinite(loss):
        raise DivergedError(f"the loss is {loss} at step {state.step}")
    # The loss tells of the parameters before the step, not of those it led to.
    if not _are_finite(state.parameters):
        raise DivergedError(f"the parameters are not finite after step {state.step}")
    return loss, error, samples, wanted


def _key(seed: int, step: int, *, stream: int) -> mx.array:
    """The random key of a step; the three streams are steps, occupancy and initial values."""
    # Far apart (the golden ratio of 2^32), so that no seed's stream is another's neighbour's.
    return mx.array([(seed + stream * 0x9E3779B9) % 2**32, step], mx.uint32)
