"""Surface normals: directions in which the density decreases most."""

from collections.abc import Callable

import mlx.core as mx

CORNERS = tuple((x, y, z) for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0))
"""Corners of the cube at which log densities are compared. A hash grid's derivatives are
discontinuous between the cells of its finest level, so normals computed from derivatives show the
grid instead of the surface. Normals computed from four or six points, or without the logarithm, are
noisy."""

FLOOR = 1e-3
"""Density per scene unit that is added to each density before its logarithm is computed, so that
much smaller densities have no effect."""

LEAST = 1e-4
"""Minimum length of the sum of corner * log(density + FLOOR) for a unit normal. Where the density
is constant, rounding errors cause shorter sums. A shorter sum is divided by `LEAST`, so its normal
has a length of less than 1."""


def normals(
    density: Callable[[mx.array], mx.array], position: mx.array, reach: mx.array
) -> mx.array:
    """Return unit normals (points, 3) at `position` (points, 3). The normals point toward lower
    density.

    `density` maps positions (points, 3) to density (points,) per scene unit. `density` is evaluated
    at the corners of a cube around each position. `reach` (points,) is half the side of each cube,
    in scene units. Where the density is constant, the normal is close to zero.
    """
    corners = mx.array(CORNERS)
    around = position[:, None] + corners * reach[:, None, None]
    densities = density(around.reshape(-1, 3)).reshape(-1, len(CORNERS))
    slope = (mx.log(densities + FLOOR)[:, :, None] * corners).sum(axis=1)
    length = mx.sqrt(mx.square(slope).sum(axis=1, keepdims=True))
    return -slope / mx.maximum(length, LEAST)
