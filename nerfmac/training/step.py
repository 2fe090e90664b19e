"""`Step`: the training step, one function that is compiled, the same on every back end.

It draws pixels, samples their rays, evaluates the field, composites the samples, compares the
colours and moves the parameters. Shapes are fixed, except for the number of rays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from nerfmac.backend import Arrays
from nerfmac.config import TrainConfig
from nerfmac.fields.field import Parameters
from nerfmac.geometry.colour import over
from nerfmac.ops.composite import Composited
from nerfmac.ops.draw_pixels import chosen_pixels, draw_pixels
from nerfmac.rendering.renderer import shade
from nerfmac.scenes import Views
from nerfmac.training.method import Parts
from nerfmac.training.optimiser import StepNumbers, Updated, adam


@dataclass(frozen=True)
class Step:
    """What a step needs and training does not change."""

    config: TrainConfig
    parts: Parts
    views: Views

    def __call__(
        self,
        rays: int,
        now: Updated,
        sampling: Arrays,
        key: mx.array,
        numbers: StepNumbers,
    ) -> tuple[Any, mx.array]:
        """One update, and [loss, mean squared error, samples, slots that a ray takes].

        `now` is an `Updated`, `sampling` the sampler's state; both come back in the same order. The
        measurements are (4,) float32.
        """
        config, (field, sampler, loss_between) = self.config, self.parts
        # All random numbers come from one call: each call would be a launch of its own.
        drawn = mx.random.uniform(shape=(3 + sampler.draws + 3, rays), key=key)
        place, along, background = mx.split(drawn, (3, 3 + sampler.draws))
        drawn_rays, rgba = draw_pixels(self.views.pixels, self.views.cameras, place)
        # Every ray has a random background, so that matter cannot imitate it.
        background = background.reshape(rays, 3)
        target = over(rgba, background, config.blend)

        def loss_of(parameters: Parameters) -> tuple[mx.array, ...]:
            sampled = sampler.sample(parameters, sampling, drawn_rays, along.T)
            samples, proposals = sampled.samples, sampled.proposals
            seen = shade(field, parameters, samples, drawn_rays.direction)
            fits = samples.fits[:, None].astype(mx.float32)
            if self.views.kept is not None:  # a masked pixel's ray counts for nothing
                fits = fits * self.views.kept[chosen_pixels(self.views.cameras, place)][:, None]
            *coarser, predicted = (_in_front_of(background, each) for each in (*proposals, seen))
            error = _mean(mx.square(predicted.colour - target), fits)
            loss = _mean(loss_between(predicted, target), fits)
            loss = sum((_mean(loss_between(each, target), fits) for each in coarser), start=loss)
            used = samples.used.reshape(()).astype(mx.float32)
            return config.loss_scale * loss, error, used, sampled.slots_per_ray

        (loss, *measured), gradients = mx.value_and_grad(loss_of)(now.parameters)
        updated = adam(Updated(*now), gradients, StepNumbers(*numbers), field.decayed)
        return updated, mx.stack([loss / config.loss_scale, *measured])


def _in_front_of(background: mx.array, seen: Composited) -> Composited:
    """`seen`, its colour over the `background` (rays, 3)."""
    return seen._replace(colour=seen.colour + (1.0 - seen.opacity[:, None]) * background)


def _mean(values: mx.array, fits: mx.array) -> mx.array:
    """The mean of `values` (rays,) or (rays, n) over the rays of which `fits` (rays, 1) is 1."""
    values = values.reshape(fits.shape[0], -1)
    return (values * (fits / mx.maximum(values.shape[1] * fits.sum(), 1.0))).sum()
