"""`Step`: the training step, one function that is compiled, the same on every back end.

It draws pixels, samples their rays, evaluates the field, composites the samples, compares the
colours and moves the parameters. Shapes are fixed, except for the number of rays.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import NamedTuple

import mlx.core as mx

from nerfmac.backend import Arrays, repeatable
from nerfmac.config import RanksConfig, RefineConfig, TrainConfig
from nerfmac.fields.field import Parameters
from nerfmac.geometry.colour import over
from nerfmac.geometry.samples import Samples
from nerfmac.ops.composite import Composited, composite
from nerfmac.ops.draw_pixels import chosen_pixels, draw_pixels
from nerfmac.ranks import Ranks
from nerfmac.scenes import Views
from nerfmac.training.corrections import Corrections
from nerfmac.training.gradient_scaling import scaled
from nerfmac.training.loss_scale import LossScale, all_finite
from nerfmac.training.method import Parts
from nerfmac.training.optimiser import StepNumbers, Updated, adam
from nerfmac.training.regularisers import entropy, spread


class Kind(NamedTuple):
    """What a step does beside the rest: each kind is traced and compiled by itself."""

    moves: bool = False
    """Whether it learns where cameras stand and what their lenses are."""
    is_coarse: bool = False
    """Whether it leaves out some of the field's detail."""

    def __str__(self) -> str:
        return f"{', moving cameras' * self.moves}{', coarse' * self.is_coarse}"

    @classmethod
    def at(cls, step: int, config: RefineConfig) -> Kind:
        """The kind of `step`, counted from 0."""
        return cls(config.moves_at(step), config.is_coarse_at(step))

    @classmethod
    def others(cls, now: Kind, config: RefineConfig) -> list[Kind]:
        """The kinds, other than `now`, that follow in training."""
        if not config.cameras:
            return []
        kinds = [cls(moves=True, is_coarse=now.is_coarse), cls(moves=True)]
        if config.every > 1:
            kinds.append(cls())
        return [kind for kind in dict.fromkeys(kinds) if kind != now]


@dataclass(frozen=True)
class Step:
    """What a step needs and training does not change."""

    config: TrainConfig
    parts: Parts
    views: Views
    corrections: Corrections
    ranks: Ranks
    exchange: RanksConfig
    is_deterministic: bool = False
    full: float = 0.0
    """From which distance on samples learn in full, in scene units; see `gradient_scaling`."""

    def __call__(
        self,
        rays: int,
        kind: Kind,
        now: Updated,
        sampling: Arrays,
        scaling: Arrays,
        key: mx.array,
        numbers: StepNumbers,
        detail: mx.array,
    ) -> tuple[Updated, Arrays, mx.array]:
        """One update; the `scaling` after it; loss, mean squared error, samples and slots per ray.

        `now` is an `Updated`, `sampling` the sampler's state, `scaling` a `LossScale`'s fields. If
        the gradients are not all finite, only `scaling` changes.
        `detail` () is as in `Field.coarse_to_fine`. The measurements are (4,) float32, of this
        rank's `rays`. The update is by all ranks' gradients, each by how many of
        its rays fit, unless ranks take steps of their own. What a step of this `kind` does not
        learn stays as it is.
        """
        decayed = self.parts.field.l2_regularised
        parameters, moments = now = Updated(*now)
        before = LossScale(**scaling)
        loss_of = self.losses(rays, kind, parameters, sampling, key, detail, before.scale)
        kept = {} if kind.moves else self.corrections.of_cameras(parameters)
        learned = {name: each for name, each in parameters.items() if name not in kept}
        with repeatable() if self.is_deterministic else nullcontext():
            gradient = mx.value_and_grad(lambda learned: loss_of(parameters | learned))
            (loss, *measured, share), gradients = gradient(learned)
        if self.exchange.every == 1:
            gradients = self.ranks.weighted_mean(gradients, share, self.exchange.words)
        bounded = self.parts.field.bounded_gradients
        is_good = all_finite(each for name, each in gradients.items() if name not in bounded)
        unscale = mx.where(is_good, 1.0 / before.scale, 0.0).reshape(1)
        moved = adam(now, gradients, StepNumbers(*numbers), decayed, unscale)
        updated = Updated(parameters | moved.parameters, moments | moved.moments)
        measurements = mx.stack([loss / before.scale, *measured])
        return updated, before.after(is_good)._asdict(), measurements

    def losses(
        self,
        rays: int,
        kind: Kind,
        now: Parameters,
        sampling: Arrays,
        key: mx.array,
        detail: mx.array,
        scale: mx.array,
    ) -> Callable[[Parameters], tuple[mx.array, ...]]:
        """Of `rays` of the cameras as they are `now`, the loss times `scale`, and what is measured.

        It is a function of all that is learned, whose values are those of `now` when it is called.
        Last it gives the fraction of the rays that fit.
        """
        config, (field, sampler, loss_between) = self.config, self.parts
        corrections = self.corrections
        place, along, background = self._drawn(rays, key)
        cameras = corrections.cameras(now)
        rays_of, rgba, view = draw_pixels(self.views.pixels, cameras, place)
        # Every ray has a random background, so that matter cannot imitate it.
        background = background.T
        target = over(rgba, background, config.blend)

        def loss_of(learned: Parameters) -> tuple[mx.array, ...]:
            parameters = corrections.of_field(learned)
            if kind.is_coarse:
                parameters = field.coarse_to_fine(parameters, detail)
            sampled = sampler.sample(parameters, sampling, rays_of, along.T)
            samples, directions = sampled.samples, rays_of.direction
            if kind.moves:
                samples, directions = corrections.follow(learned, samples, rays_of, view)
            evaluated, away = field(parameters, samples, directions), samples.distance
            density, colour = (scaled(each, away, self.full) for each in evaluated)
            seen = composite(density, colour, samples.distance, samples.width, samples.ray_start)
            exposed = (corrections.exposed(s, learned, view) for s in (*sampled.proposals, seen))
            fits = self._counted(samples, place)
            predicted = [_in_front_of(background, each) for each in exposed]
            error = _mean(mx.square(predicted[-1].colour - target), fits)
            losses = [_mean(loss_between(each, target), fits, scale) for each in predicted]
            loss = sum(losses[1:], start=losses[0])
            loss = loss + self._regularised(density, samples, seen.opacity, fits, scale)
            used = samples.used.reshape(()).astype(mx.float32)
            return loss, error, used, sampled.mean_samples_per_ray, fits.mean()

        return loss_of

    def _drawn(self, rays: int, key: mx.array) -> list[mx.array]:
        """Random numbers of `rays`: (3, rays) where each is, (draws, rays) where it is sampled, and
        (3, rays) its background.
        """
        # All come from one call: each call would be a launch of its own. The ranks make the same
        # ones and take a share each, so that they draw what one rank would.
        draws = self.parts.sampler.draws
        shape = (3 + draws + 3, self.ranks.size * rays)
        drawn = self.ranks.own(mx.random.uniform(shape=shape, key=key))
        return list(mx.split(drawn, (3, 3 + draws)))

    def _counted(self, samples: Samples, place: mx.array) -> mx.array:
        """(rays, 1): 1 for each ray that the loss counts; `place` is that of its pixel."""
        fits = samples.fits.astype(mx.float32)[:, None]
        if self.views.kept is not None:  # a masked pixel's ray counts for nothing
            fits = fits * self.views.kept[chosen_pixels(self.views.cameras, place)][:, None]
        return fits

    def _regularised(
        self,
        density: mx.array,
        samples: Samples,
        opacity: mx.array,
        fits: mx.array,
        scale: mx.array,
    ) -> mx.array:
        """() what is added to the scaled loss against floaters."""
        config, added = self.config, mx.array(0.0)
        if config.distortion:
            added = added + _mean(spread(density, samples), fits, scale * config.distortion)
        if config.entropy:
            added = added + _mean(entropy(opacity), fits, scale * config.entropy)
        return added


def _in_front_of(background: mx.array, seen: Composited) -> Composited:
    """`seen`, its colour over the `background` (rays, 3)."""
    return seen._replace(colour=seen.colour + (1.0 - seen.opacity[:, None]) * background)


def _mean(values: mx.array, fits: mx.array, scale: float | mx.array = 1.0) -> mx.array:
    """`scale` times the mean of `values` (rays,) or (rays, n) over rays of which `fits` (rays, 1)
    is 1.
    """
    values = values.reshape(fits.shape[0], -1)
    weights = fits / mx.maximum(values.shape[1] * fits.sum(), 1.0)
    # Scaling the sum would be a launch of its own, and another one backwards.
    return (scale * values * weights).sum()
