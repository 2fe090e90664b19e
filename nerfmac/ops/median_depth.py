"""Median depth: the distance along a ray at which the transmittance falls to one half.

Thin haze in front of a surface changes the mean distance of the density along a ray, but hardly
changes the median. The density is assumed to be constant within each sample's interval, so the
optical depth grows linearly within the interval.
"""

from __future__ import annotations

from math import log

import mlx.core as mx

from nerfmac.geometry.samples import Samples
from nerfmac.ops.composite import Composited, weights_along


def median_distance(density: mx.array, samples: Samples) -> mx.array:
    """Return the distance along each ray at which the transmittance falls to one half.

    The distance is computed in plain MLX on every back end and has no gradient. The kernel `trace`
    uses the same formula.

    Args:
        density: (slots,) float32 per scene unit, not negative.
        samples: Samples without thinning.

    Returns:
        float32 array (rays,) in scene units. If a ray's transmittance is still above one half
        behind its last sample, the distance is 0.
    """
    rays = samples.ray_start.shape[0] - 1
    if density.shape[0] == 0 or rays == 0:
        return mx.zeros(rays)
    along = weights_along(density, samples.width, samples.ray_start)
    remaining = log(2.0) - along.before
    crosses = along.is_visible & (remaining > 0.0) & (remaining <= along.optical)
    fraction = remaining / mx.maximum(along.optical, 1e-9)
    distance = samples.distance + (fraction - 0.5) * samples.width
    return mx.zeros(rays).at[along.ray].add(mx.where(crosses, distance, 0.0))


def with_median(seen: Composited, median: mx.array) -> Composited:
    """Replace the weighted depth of composited rays with the median distance times the opacity.

    Args:
        seen: Composited rays.
        median: (rays,) float32, result of `median_distance`. Where the distance is 0, the
            weighted depth does not change.

    Returns:
        Composited rays with the new weighted depth.
    """
    return seen._replace(
        weighted_depth=mx.where(median > 0.0, median * seen.opacity, seen.weighted_depth)
    )
