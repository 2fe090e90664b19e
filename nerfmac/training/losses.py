"""Losses: functions of a rendered batch of rays and its target colors.

`Method(loss=...)` replaces the configured color loss, and `Method(extra_losses=[...])` adds loss
terms. Three configurable loss terms reduce haze and floaters:

    disparity  = sum_i weight_i (1 - s_i),                 s = t / (1 + t) at the distance t
    distortion = sum_ij weight_i weight_j (s_i - s_j)^2
    entropy    = -o log o - (1 - o) log(1 - o),            for the opacity o

If the images do not determine which of two depths is correct, the disparity loss favors the greater
depth. If a surface has no texture, density anywhere along a ray can have the correct color, but
density near a camera hides the scene in other views. FreeNeRF (Yang et al. 2023, section 4.3) uses
a similar penalty on density near cameras. The disparity loss decays linearly to zero at the
fraction `DISPARITY_END` of the run, so that it does not bias the final depths.

The depth loss applies to rays with a distance d that is known from the tracks of sparse points:

    depth = 1 - sum_i weight_i exp(-(t_i - d)^2 / (2 spread^2))

The depth loss is small if the ray's weights are concentrated within about one `spread` of d. For
the same purpose, DS-NeRF (Deng et al. 2022) minimizes the divergence between the weights and a
normal distribution.

The smoothness loss compares the depths d and colors c of two rays a and b through neighboring
pixels:

    smoothness = |log d_a - log d_b| exp(-15 sum |c_a - c_b|)

Colors usually differ at object boundaries, so the loss allows depth discontinuities there (Heise et
al. 2013). RegNeRF (Niemeyer et al. 2022) compares depths without considering colors. A ray's depth
is the weighted mean distance of its samples. Use the smoothness loss together with the disparity
loss, because smooth haze in front of cameras also has a small smoothness loss.

The ground loss applies to rays that intersect the ground plane at the distance g, and moves their
density to the plane:

    ground = sum_i weight_i min(|t_i / g - 1|, GROUND_REACH)

Density anywhere along a ray can have the correct color of a textureless floor, so the colors do not
determine the floor's depth. Far from the plane, the ground loss is constant, so it does not move
tall objects in front of the plane. For objects close to the plane, the color loss dominates.

The disparity, depth, and ground losses are linear in the weights. These losses are therefore
implemented as penalties of samples (see `nerfmac.ops.penalty`), because `composite_penalized` can
sum weight times penalty while it composites colors.

The distortion loss is that of Mip-NeRF 360 (Barron et al. 2022, equation 15), but with squares
instead of absolute values, as in the code of 2D Gaussian Splatting (Huang et al. 2024). With
squares, three sums along each ray suffice. Distances are in scene units.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import mlx.core as mx

from nerfmac.common.checks import InputError
from nerfmac.config import TrainConfig
from nerfmac.geometry.samples import Samples
from nerfmac.ops.composite import Composited, composite, sample_weights
from nerfmac.ops.huber import huber
from nerfmac.ops.penalty import PenaltyWeights
from nerfmac.training.track_rays import TrackTargets

EDGE = 15.0
"""Decay rate of the smoothness loss with the color difference of neighboring pixels. Colors are in
[0, 1], and differences are summed over the channels."""
LEAST_OPACITY, LEAST_DEPTH = 1e-3, 1e-2
"""Lower bounds in the smoothness loss. The opacity is clamped to at least `LEAST_OPACITY` before a
depth is divided by the opacity. The depth, in scene units, is clamped to at least `LEAST_DEPTH`
before its logarithm is computed."""

_MARGIN = 1e-4  # minimum distance from 0 and 1, where the entropy has an infinite slope


class RayBatch(NamedTuple):
    """Rendered batch of rays: the input of losses. Properties are computed on access.

    The first three fields are as in `Composited`. All values except `samples` and `mask` are
    differentiable with respect to the field's parameters.
    """

    color: mx.array  # (rays, 3) float32, over the random background of each ray
    opacity: mx.array  # (rays,) float32, in [0, 1]
    depth: mx.array  # (rays,) float32, sum of weight * distance
    mask: mx.array  # (rays, 1) float32, 0 for masked rays and for rays without slots, otherwise 1
    density: mx.array | None = None  # (slots,) float32, or None for rays of a proposal field
    samples: Samples | None = None  # packed samples, or None for rays of a proposal field
    proposals: tuple[Composited, ...] = ()  # coarser renderings of the same rays
    progress: mx.array | float = 0.0  # float32 scalar, finished fraction of the run
    tracks: TrackTargets | None = None  # known distances of the first rays, or None
    penalty: mx.array | None = None  # (rays,) disparity, depth, and ground losses, or None
    pairs: int = 0  # rays i and i + pairs, for i < pairs, go through neighboring pixels

    @property
    def packed(self) -> tuple[mx.array, Samples]:
        """Density (slots,) and `Samples`. Raises `InputError` if the rays belong to a proposal
        field."""
        if self.density is None or self.samples is None:
            raise InputError(
                "the rays of a proposal have no samples; pass a loss on samples as "
                "nerfmac.Method(extra_losses=[...]), so that it is applied to the last rendering"
            )
        return self.density, self.samples

    @property
    def weights(self) -> mx.array:
        """Weight of each sample in the color of its ray, float32 (slots,). Raises `InputError` if
        the rays belong to a proposal field.

        `samples.ray` contains each sample's ray index. The weight of unused slots is 0.
        """
        density, samples = self.packed
        return sample_weights(density, samples)

    @property
    def distances(self) -> mx.array:
        """Distance of each sample from its camera, float32 (slots,). Raises `InputError` if the
        rays belong to a proposal field."""
        return self.packed[1].distance


Loss = Callable[[RayBatch, mx.array], mx.array]
"""Function that takes a `RayBatch` and the target colors (rays, 3) over the same backgrounds. The
function returns one loss per ray, (rays,), or several losses per ray, (rays, n). Training minimizes
the mean loss over the rays for which `RayBatch.mask` is 1."""


def huber_loss(delta: float) -> Loss:
    """Return a loss that applies `nerfmac.ops.huber.huber` to the color of a ray."""
    return lambda rays, target: huber(rays.color, target, delta)


def distortion_loss(rays: RayBatch, _target: mx.array) -> mx.array:
    """Return the distortion loss of each ray, (rays,), in [0, 1/2].

    Small values indicate that a ray's weights are concentrated in one place.
    """
    density, samples = rays.packed
    s = samples.distance / (1.0 + samples.distance)
    # Distances are relative to the ray's first sample, to reduce rounding errors in sums of
    # squares.
    first = samples.distance[mx.minimum(samples.ray_start[:-1], samples.distance.shape[0] - 1)]
    s = s - (first / (1.0 + first))[samples.ray]
    # The sum of weights differs from the opacity, because the opacity also includes omitted
    # samples.
    powers = mx.stack([mx.ones_like(s), s, mx.square(s)], axis=1)
    sums = composite(density, powers, samples).color
    return 2.0 * mx.maximum(sums[:, 0] * sums[:, 2] - mx.square(sums[:, 1]), 0.0)


def entropy_loss(rays: RayBatch, _target: mx.array) -> mx.array:
    """Return the entropy of each ray's opacity, (rays,), in [0, log 2].

    The entropy is 0 if a ray is either opaque or empty.
    """
    opacity = mx.clip(rays.opacity, _MARGIN, 1.0 - _MARGIN)
    return -opacity * mx.log(opacity) - (1.0 - opacity) * mx.log(1.0 - opacity)


def smoothness_loss(rays: RayBatch, target: mx.array) -> mx.array:
    """Return the smoothness loss of each ray, (rays,), a penalty on depth differences to its
    neighbor.

    The loss is 0 if a ray has no neighbor or its neighbor is masked.
    """
    pairs = rays.pairs
    depth = rays.depth / mx.maximum(rays.opacity, LEAST_OPACITY)
    depth = mx.log(mx.maximum(depth, LEAST_DEPTH))
    one, other = slice(None, pairs), slice(pairs, 2 * pairs)
    difference = mx.abs(target[one] - target[other]).sum(axis=1)
    both = (rays.mask[one] * rays.mask[other])[:, 0]
    loss = mx.abs(depth[one] - depth[other]) * mx.exp(-EDGE * difference) * both
    return mx.concatenate([loss, loss, mx.zeros(len(depth) - 2 * pairs)])


def configured_extra_losses(config: TrainConfig) -> tuple[Loss, ...]:
    """Return the extra losses that have a nonzero weight in `config`."""
    weights = (
        (distortion_loss, config.distortion),
        (entropy_loss, config.entropy),
        (smoothness_loss, config.smoothness),
    )
    return tuple(partial(_weighted, loss, weight) for loss, weight in weights if weight)


def configured_penalty_weights(config: TrainConfig, extent: float) -> PenaltyWeights | None:
    """Return the weights of the disparity, depth, and ground losses, or None if all are 0.

    `extent` is the side length of the scene cube in scene units.
    """
    # The disparity loss reduces haze in front of cameras. If the extent is 1, the cameras are
    # outside the scene cube, where there is no density, so the loss is disabled.
    disparity = config.disparity if extent > 1 else 0.0
    weights = disparity, config.depth or 0.0, config.ground or 0.0
    return PenaltyWeights(*weights, config.depth_until) if any(weights) else None


def _weighted(loss: Loss, weight: float, rays: RayBatch, target: mx.array) -> mx.array:
    return weight * loss(rays, target)
