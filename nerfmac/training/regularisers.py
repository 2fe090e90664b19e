"""What a loss may add against floaters: matter spread along a ray, and rays that half see through.

    spread  = sum_ij weight_i weight_j (s_i - s_j)^2,   s = t / (1 + t) at the distance t
    entropy = -o log o - (1 - o) log(1 - o),            at the opacity o

The spread is the distortion loss of Mip-NeRF 360 (Barron et al. 2022, equation 15) with squares in
the place of absolute values, as in 2D Gaussian Splatting's program (Huang et al. 2024): it then
follows from three sums along the ray. Distances are in scene units.
"""

from __future__ import annotations

import mlx.core as mx

from nerfmac.geometry.samples import Samples
from nerfmac.ops.composite import composite

_LEAST = 1e-4  # from full and from no opacity; the entropy's slope is infinite there


def spread(density: mx.array, samples: Samples) -> mx.array:
    """(rays,) how far apart each ray's matter is, 0 to 1/2; `density` is (slots,)."""
    place = samples.distance / (1.0 + samples.distance)
    # From a place of the ray itself on: sums of squares lose less to rounding.
    first = samples.distance[mx.minimum(samples.ray_start[:-1], samples.distance.shape[0] - 1)]
    place = place - (first / (1.0 + first))[samples.ray]
    powers = mx.stack([place, mx.square(place), mx.zeros_like(place)], axis=1)
    sums = composite(density, powers, samples.distance, samples.width, samples.ray_start)
    mean, square = sums.colour[:, 0], sums.colour[:, 1]
    return 2.0 * mx.maximum(sums.opacity * square - mean * mean, 0.0)


def entropy(opacity: mx.array) -> mx.array:
    """(rays,) how undecided an `opacity` (rays,) is between all and nothing, 0 to log 2."""
    seen = mx.clip(opacity, _LEAST, 1.0 - _LEAST)
    return -seen * mx.log(seen) - (1.0 - seen) * mx.log(1.0 - seen)
