"""`Step`: a training step as a single function that can be compiled. The function is the same on
every back end.

A step draws pixels, samples their rays, evaluates the field, composites the samples, computes the
loss, and updates the parameters.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import mlx.core as mx
import numpy as np

from nerfmac.backend import Arrays, repeatable
from nerfmac.common import Float32Array, InputError, UInt32Array
from nerfmac.config import RefineConfig
from nerfmac.fields.field import Parameters, evaluated
from nerfmac.geometry import Rays, Samples, Views, blended
from nerfmac.ops.composite import composite_extras, composite_penalized
from nerfmac.ops.draw_pixels import choose_pixels, draw_pixels
from nerfmac.ops.huber import huber
from nerfmac.ops.loss_scale import LossScale, next_loss_scale
from nerfmac.ops.masked_mean import masked_mean
from nerfmac.ops.packing import fits_mask
from nerfmac.ops.uniform import uniform
from nerfmac.ranks import Ranks
from nerfmac.refine.refinement import CAMERA_INTERVAL, CameraRefinement
from nerfmac.sampling.ray_batch import RayBatch
from nerfmac.sampling.sampler import Sampled
from nerfmac.training.model import Model
from nerfmac.training.optimizer import OptimizerState, StepNumbers, adam
from nerfmac.training.priors import Known, Priors

_QUADRATIC = 1024.0  # With this delta, the Huber loss is the squared error / (2 delta).
NO_NUMBERS = np.zeros(0, np.float32)
ERROR_SCALE = 2.0 * _QUADRATIC  # Mean squared error of a ray, divided by its Huber loss.


def step_values(
    key: UInt32Array, train_frac: float, numbers: Float32Array = NO_NUMBERS
) -> mx.array:
    """Return all values that the host computes for a step as one array.

    Creating an array takes MLX tens of microseconds on CUDA, so a step has only one.

    Args:
        key: (2,) uint32, random key.
        train_frac: Completed fraction of the training.
        numbers: (rows, 6) float32, from `step_numbers`.

    Returns:
        uint32 array: the key, followed by the bits of the other values.
    """
    floats = np.concatenate([np.array([train_frac], np.float32), numbers.ravel()])
    return mx.array(np.concatenate([key, floats.view(np.uint32)]))


def unpacked(values: mx.array) -> tuple[mx.array, mx.array, mx.array]:
    """Return the key, the completed fraction of the training, and the other numbers in the result
    of `step_values`."""
    key, floats = values[:2], mx.view(values[2:], mx.float32)
    # Values are split off, because MLX gathers indexed values with a separate kernel.
    train_frac, numbers = mx.split(floats, [1])
    return key, train_frac.reshape(()), numbers


def is_camera_step(step: int, config: RefineConfig) -> bool:
    """Return whether `step`, counted from 0, also trains poses and lenses."""
    return config.cameras and step % CAMERA_INTERVAL == 0


class Batch(NamedTuple):
    """Rays of one step with their target colors and the random numbers for their samples."""

    rays: Rays
    pixel: mx.array  # (rays,) int32, index of the pixel of each ray, see `draw_pixels`
    sample_draws: mx.array  # (draws, rays) float32 in [0, 1), see `Sampler.draws`
    background: mx.array  # (rays, 3) float32, a random color behind each ray
    color: mx.array  # (rays, 3) float32, color of the pixel without its alpha
    target: mx.array  # (rays, 3) float32, color of the pixel over the background
    known: Known  # known distances, see `nerfmac.training.priors`


class Rendering(NamedTuple):
    """Rendered `Batch`, and the number of samples used to render it."""

    rays: RayBatch
    sampled: Sampled
    samples: mx.array  # float32 scalar, number of samples


class StepResult(NamedTuple):
    """Result of a `Step`."""

    optimized: OptimizerState
    scale: LossScale  # the only result that changes if a gradient is not finite
    measured: mx.array
    """Measurements of this rank, float32 (4,): loss, mean squared error of colors, number of
    samples, and mean number of slots per ray."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """Training step with constant settings. Each call computes one step."""

    model: Model
    views: Views
    refinement: CameraRefinement
    ranks: Ranks
    priors: Priors  # known distances, and the losses that use them
    rays: int
    """Number of rays that this rank processes."""
    learns_cameras: bool  # whether poses and lenses are also trained
    full_gradient_distance: float = 0.0
    """Distance from the camera, in scene units, beyond which gradients are not reduced (see
    `nerfmac.ops.composite`)."""

    def __call__(
        self,
        before: OptimizerState,
        sampling: Arrays,
        scale: LossScale,
        values: mx.array,
    ) -> StepResult:
        """Compute one step, and update the parameters with the mean gradients of all ranks.

        Args:
            before: Parameters and moments before the step. Cameras change only if `learns_cameras`.
            sampling: State of the sampler.
            scale: Loss scale.
            values: Random key, completed fraction of the training, and settings of Adam, from
                `step_values`.

        Returns:
            New parameters, moments, and loss scale, and the measurements of the step. If a gradient
            is not finite, parameters and moments do not change.
        """
        parameters, moments = before
        key, train_frac, rows = unpacked(values)
        numbers = StepNumbers.of(rows, self.refinement.shapes)
        batch = self.draw(parameters, key, train_frac)

        def loss_of(trained: Parameters) -> tuple[mx.array, ...]:
            seen = self.render(parameters | trained, sampling, batch)
            # The squared error is computed as a Huber loss, which requires only one launch.
            squares = huber(seen.rays.color, batch.target, _QUADRATIC)
            scaled_back = mx.array(ERROR_SCALE)
            error, share = masked_mean(squares, seen.rays.mask.reshape(-1), scaled_back)
            loss = self.loss(seen, batch.target, scale.scale)
            counts = seen.samples, seen.sampled.mean_samples_per_ray
            return loss, error, *counts, share

        trained = self.refinement.trained(parameters, learns_cameras=self.learns_cameras)
        with repeatable() if self.model.config.deterministic else nullcontext():
            losses, gradients = mx.value_and_grad(loss_of)(trained)
        loss, *measured, share = losses
        gradients = self.ranks.weighted_mean(gradients, share)
        specs = self.model.parameter_specs.items()
        bounded = {name for name, spec in specs if spec.has_bounded_gradient}
        regularized = {name for name, spec in specs if spec.is_l2_regularized}
        # The sum is not finite if any gradient is not finite. Testing it requires fewer launches
        # than testing each value.
        sums = [values.sum() for name, values in gradients.items() if name not in bounded]
        first, *others = sums or [mx.array(0.0)]
        next_scale, unscale = next_loss_scale(scale, sum(others, start=first))
        after = adam(before, gradients, numbers, regularized, unscale)
        updated = OptimizerState(parameters | after.parameters, moments | after.moments)
        measurements = mx.stack([loss / scale.scale, *measured])
        return StepResult(updated, next_scale, measurements)

    def draw(self, parameters: Parameters, key: mx.array, train_frac: mx.array) -> Batch:
        """Draw random pixels of all views, with rays from the refined cameras in `parameters`."""
        # All random numbers are drawn in one call, because each call is a separate launch. All
        # ranks draw the same numbers, but each rank uses a different part of them. Together, the
        # ranks therefore draw the same rays as a single rank would.
        draws = self.model.sampler.draws
        count = self.ranks.size * self.rays
        drawn = uniform((3 + draws + 3) * count, key)
        pixels, samples, colors = mx.split(drawn, (3 * count, (3 + draws) * count))
        fractions = self.ranks.own(pixels.reshape(3, count))
        sample_draws = self.ranks.own(samples.reshape(draws, count))
        # Backgrounds are random, so that density cannot imitate a background color.
        background = self.ranks.own(colors.reshape(count, 3).T).T
        cameras = self.refinement.cameras(parameters)
        index, tracks = self.priors.draw(choose_pixels(cameras, fractions), fractions[0])
        rays, color, alpha, _ = draw_pixels(self.views.pixels, cameras, index)
        target = color
        if self.views.pixels.shape[1] == 4:
            target = blended(color, alpha, background, self.model.config.train.blend)
        return Batch(
            rays=rays._replace(train_frac=train_frac),
            pixel=index,
            sample_draws=sample_draws,
            background=background,
            color=color,
            target=target,
            known={**tracks, **self.priors.along(cameras, rays, index)},
        )

    def render(self, parameters: Parameters, sampling: Arrays, batch: Batch) -> Rendering:
        """Render a batch's rays. The result is differentiable with respect to `parameters`."""
        refinement, rays = self.refinement, batch.rays
        view, train_frac = rays.view, rays.train_frac
        own = {name: parameters[name] for name in self.model.parameter_specs}
        sampled = self.model.sampler.sample(own, sampling, rays, batch.sample_draws.T)
        samples = sampled.samples
        if self.learns_cameras:
            samples, rays = refinement.warp_samples(parameters, samples, rays, view)
        output = evaluated(self.model.field, own, samples, rays)
        known = dict(batch.known)
        if "sensor" in known:
            known["sensor"] = refinement.measured(parameters, known["sensor"])
        given = self.priors.penalties(samples, train_frac, known)
        seen, penalty = composite_penalized(
            *(output.density, output.color, samples),
            mx.zeros(output.density.shape) if given is None else given.sample,
            batch.color,
            None if refinement.changes_colors else batch.background,
            self.full_gradient_distance,
        )
        if refinement.changes_colors:
            seen = refinement.expose(seen, parameters, view, batch.background)
        if given is not None and known.keys() & {"tracks", "sensor"}:
            penalty = penalty + given.ray
        if refinement.config.depth_scale and "sensor" in known:
            moved = refinement.depth_scale_loss(parameters, batch.known["sensor"], seen)
            penalty = penalty + self.priors.weights.sensor * moved
        rendered = RayBatch(
            color=seen.color,
            opacity=seen.opacity,
            depth=seen.weighted_depth,
            extras=composite_extras(output.density, output.extras, samples),
            mask=self._mask(samples, batch.pixel),
            output=output,
            samples=samples,
            **rays._asdict(),
            pixel=batch.pixel,
            density_at=partial(self._density_at, own, train_frac),
            over_background=lambda other: refinement.expose(
                other, parameters, view, batch.background
            ),
            parameters=own,
            known=batch.known,
            penalty=None if given is None else penalty,
        )
        used = samples.used.reshape(()).astype(mx.float32)
        return Rendering(rendered, sampled, used)

    def loss(self, seen: Rendering, target: mx.array, scale: mx.array) -> mx.array:
        """Return `scale` times the sum of all losses of the rendered rays, a float32 scalar."""
        rays = seen.rays
        losses = [loss(rays, target) for loss in self.model.losses]
        learned = self.model.sampler.loss(seen.sampled, rays, target)
        losses += [each for each in (learned, rays.penalty) if each is not None]
        # Losses are added before the mean, because each mean requires two launches.
        first, *others = (_of_rays(loss, rays.mask.shape[0]) for loss in losses)
        total = sum(others, start=first).astype(mx.float32)
        return masked_mean(total, rays.mask.reshape(-1), scale).mean

    def _density_at(
        self, parameters: Parameters, train_frac: mx.array, position: mx.array
    ) -> mx.array:
        """Return the density (points,) at `position` (points, 3), as the nearest training camera
        sees it, with a gradient."""
        through = self.model.viewpoints._replace(train_frac=train_frac).through
        return evaluated(self.model.field, parameters, *through(position)).density

    def _mask(self, samples: Samples, pixel: mx.array) -> mx.array:
        """Return the mask (rays, 1) of the rays that contribute to the loss.

        The mask is 0 for masked pixels and for rays whose samples do not all fit in the sample
        budget (see `Samples.fits`). For all other rays, it is 1.
        """
        mask = fits_mask(samples.ray_start, samples.wanted)[:, None]
        if self.views.kept is not None:
            mask = mask * self.views.kept[pixel][:, None]
        return mask


def _of_rays(losses: mx.array, rays: int) -> mx.array:
    """Return the mean loss of each ray, (rays,), given its losses (rays,) or (rays, n)."""
    if losses.ndim not in (1, 2) or losses.shape[0] != rays:
        raise InputError(
            f"a loss has shape {losses.shape}; expected (rays,) or (rays, n) with {rays} rays; "
            "add the values of the samples of each ray, as in docs/extending.md"
        )
    return losses.mean(axis=1) if losses.ndim == 2 else losses
