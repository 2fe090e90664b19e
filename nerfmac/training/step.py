"""`Step`: one training step as one compiled function, the same on every back end.

It draws pixels, samples their rays, evaluates the field, composites the samples, computes the loss
and updates the parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import NamedTuple

import mlx.core as mx

from nerfmac.backend import Arrays, repeatable
from nerfmac.config import Config, RefineConfig
from nerfmac.fields.field import Parameters
from nerfmac.geometry.colour import over
from nerfmac.geometry.samples import Samples
from nerfmac.geometry.views import Views
from nerfmac.ops.composite import Composited, composite
from nerfmac.ops.draw_pixels import chosen_pixels, draw_pixels
from nerfmac.ranks import Ranks
from nerfmac.refine.refinement import CameraRefinement
from nerfmac.training.gradient_scaling import scale_gradients
from nerfmac.training.loss_scale import LossScale, all_finite
from nerfmac.training.losses import RayBatch
from nerfmac.training.method import Parts
from nerfmac.training.optimiser import OptimiserState, StepNumbers, adam
from nerfmac.training.track_rays import TrackRays, TrackTargets


class Schedule(NamedTuple):
    """Numbers of a step that change over the run, each () float32."""

    level_progress: mx.array  # as in `Field.coarse_to_fine`
    progress: mx.array  # finished fraction of the run


class StepFlags(NamedTuple):
    """Static arguments of a step: each combination is traced and compiled by itself."""

    learns_cameras: bool = False
    """Whether poses and lenses are trained too."""
    is_coarse: bool = False
    """Whether the field's finest levels are left out."""

    def __str__(self) -> str:
        return f"{', moving cameras' * self.learns_cameras}{', coarse' * self.is_coarse}"

    @classmethod
    def at(cls, step: int, config: RefineConfig) -> StepFlags:
        """The flags of `step`, counted from 0."""
        return cls(config.learns_cameras_at(step), config.is_coarse_at(step))

    @classmethod
    def later(cls, now: StepFlags, config: RefineConfig) -> list[StepFlags]:
        """Other flags than `now` that later steps may have."""
        if not config.cameras:
            return []
        flags = [cls(learns_cameras=True, is_coarse=now.is_coarse), cls(learns_cameras=True)]
        if config.every > 1:
            flags.append(cls())
        return [later for later in dict.fromkeys(flags) if later != now]


@dataclass(frozen=True, kw_only=True)
class Step:
    """A step's constants; calling it takes the step."""

    config: Config
    parts: Parts
    views: Views
    refinement: CameraRefinement
    ranks: Ranks
    rays: int
    """Rays of this rank."""
    flags: StepFlags
    full_gradient_distance: float = 0.0
    """Distance from the camera, in scene units, beyond which gradients keep their full size; see
    `gradient_scaling`."""
    track_rays: TrackRays | None = None
    """Where a part of the rays is drawn, for the depth loss; None: none is."""

    def __call__(
        self,
        before: OptimiserState,
        sampling: Arrays,
        scaling: Arrays,
        key: mx.array,
        numbers: StepNumbers,
        schedule: Schedule,
    ) -> tuple[OptimiserState, Arrays, mx.array]:
        """Update the parameters once by the gradients of all ranks.

        Args:
            before: an `OptimiserState`. Parameters that the flags exclude stay as they are.
            sampling: the sampler's state.
            scaling: the fields of a `LossScale`.
            key: random key.
            numbers: Adam's, a `StepNumbers`.
            schedule: a `Schedule`.

        Returns:
            The new parameters and moments; the new `scaling`, all that changes if some gradient is
            not finite; and measurements (4,) float32 of this rank's rays: loss, mean squared error,
            number of samples, mean slots per ray.
        """
        parameters, moments = before = OptimiserState(*before)
        scale = LossScale(**scaling)
        loss_of = self.loss_of(parameters, sampling, key, Schedule(*schedule), scale.scale)
        learns_cameras = self.flags.learns_cameras
        trained = self.refinement.trained(parameters, learns_cameras=learns_cameras)
        with repeatable() if self.config.deterministic else nullcontext():
            gradient = mx.value_and_grad(lambda trained: loss_of(parameters | trained))
            (loss, *measured, share), gradients = gradient(trained)
        dtype = self.config.ranks.allreduce_dtype
        gradients = self.ranks.weighted_mean(gradients, share, dtype)
        bounded = self.parts.field.bounded_gradients
        is_good = all_finite(values for name, values in gradients.items() if name not in bounded)
        unscale = mx.where(is_good, 1.0 / scale.scale, 0.0).reshape(1)
        regularised = self.parts.field.l2_regularised
        after = adam(before, gradients, StepNumbers(*numbers), regularised, unscale)
        updated = OptimiserState(parameters | after.parameters, moments | after.moments)
        measurements = mx.stack([loss / scale.scale, *measured])
        return updated, scale.after(is_good)._asdict(), measurements

    def loss_of(
        self,
        parameters: Parameters,
        sampling: Arrays,
        key: mx.array,
        schedule: Schedule,
        scale: mx.array,
    ) -> Callable[[Parameters], tuple[mx.array, ...]]:
        """The function whose gradient is taken, for one draw of rays from the refined cameras.

        Its argument has the values of `parameters`. It returns the loss times `scale`, the mean
        squared error, the samples, the slots per ray, and the fraction of rays that count.
        """
        field, sampler, colour_loss, extra_losses = self.parts
        refinement, blend = self.refinement, self.config.train.blend
        pixel_draws, sample_draws, background = self._draw(key)
        targets: TrackTargets | None = None
        if self.track_rays is not None:
            count = max(int(self.config.train.depth_rays * self.rays), 1)
            pixel_draws, targets = self.track_rays.draw(pixel_draws, count)
        cameras = refinement.cameras(parameters)
        rays, rgba, view = draw_pixels(self.views.pixels, cameras, pixel_draws)
        # Random backgrounds, so that matter cannot imitate the background.
        background = background.T
        target = over(rgba, background, blend)

        def loss_of(current: Parameters) -> tuple[mx.array, ...]:
            own = {name: current[name] for name in field.shapes}
            if self.flags.is_coarse:
                own = field.coarse_to_fine(own, schedule.level_progress)
            sampled = sampler.sample(own, sampling, rays, sample_draws.T)
            samples, directions = sampled.samples, rays.direction
            if self.flags.learns_cameras:
                samples, directions = refinement.warp_samples(current, samples, rays, view)
            density, colour = (
                scale_gradients(values, samples.distance, self.full_gradient_distance)
                for values in field(own, samples, directions)
            )
            seen = composite(density, colour, samples, rgba[:, :3])
            *proposals, seen = (
                _in_front_of(background, refinement.expose(rendering, current, view))
                for rendering in (*sampled.proposals, seen)
            )
            mask = self._mask(samples, pixel_draws)
            batch = RayBatch(
                *seen, mask, density, samples, tuple(proposals), schedule.progress, targets
            )
            error = _mean(mx.square(batch.colour - target), mask)
            coarser = (RayBatch(*proposal, mask) for proposal in proposals)
            losses = [colour_loss(rays_seen, target) for rays_seen in (*coarser, batch)]
            losses += [extra_loss(batch, target) for extra_loss in extra_losses]
            first, *others = (_mean(loss, mask, scale) for loss in losses)
            used = samples.used.reshape(()).astype(mx.float32)
            return sum(others, start=first), error, used, sampled.mean_samples_per_ray, mask.mean()

        return loss_of

    def _draw(self, key: mx.array) -> list[mx.array]:
        """Random numbers for pixels (3, rays), samples (draws, rays), backgrounds (3, rays)."""
        # One call, since each is a launch of its own. All ranks draw the same numbers and take
        # their share, so together they draw what one rank would.
        draws = self.parts.sampler.draws
        shape = (3 + draws + 3, self.ranks.size * self.rays)
        drawn = self.ranks.own(mx.random.uniform(shape=shape, key=key))
        return list(mx.split(drawn, (3, 3 + draws)))

    def _mask(self, samples: Samples, pixel_draws: mx.array) -> mx.array:
        """Mask (rays, 1): 1 for rays with all their samples whose pixel is not masked, else 0."""
        mask = samples.fits.astype(mx.float32)[:, None]
        if self.views.kept is not None:
            mask = mask * self.views.kept[chosen_pixels(self.views.cameras, pixel_draws)][:, None]
        return mask


def _in_front_of(background: mx.array, seen: Composited) -> Composited:
    """`seen`, its colour over the `background` (rays, 3)."""
    return seen._replace(colour=seen.colour + (1.0 - seen.opacity[:, None]) * background)


def _mean(values: mx.array, mask: mx.array, scale: float | mx.array = 1.0) -> mx.array:
    """`scale` times the mean of `values`, (rays,) or (rays, n), over rays whose `mask` is 1."""
    values = values.reshape(mask.shape[0], -1)
    weights = mask / mx.maximum(values.shape[1] * mask.sum(), 1.0)
    # Scaling the sum would be a launch of its own, and another one backwards.
    return (scale * values * weights).sum()
