"""Surface normals: the direction of the steepest decrease of the density."""

from __future__ import annotations

from collections.abc import Callable

import mlx.core as mx

CORNERS = tuple((x, y, z) for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0))
"""Corners of a cube where the logarithms of the density are compared. Derivatives of a hash grid
are discontinuous between the cells of its finest level, so they show the grid instead of the
surface. Normals from six or four points look stained, and normals without the logarithm look
patchy."""

FLOOR = 1e-3
"""Density per scene unit added before the logarithm: differences far below it do not count."""

LEAST = 1e-4
"""Length that rounding errors alone can give to the sum over the corners of
corner * log(density + FLOOR). Where the sum is shorter, the normal is shorter than 1."""


def normals(
    density: Callable[[mx.array], mx.array], position: mx.array, reach: mx.array
) -> mx.array:
    """Unit normals (points, 3) at `position` (points, 3), pointing away from high density.

    `density` maps (points, 3) to (points,) per scene unit. It is evaluated at the corners of cubes
    with the half sides `reach` (points,), in scene units. Where it is constant, the normal is
    close to zero.
    """
    corners = mx.array(CORNERS)
    around = position[:, None] + corners * reach[:, None, None]
    densities = density(around.reshape(-1, 3)).reshape(-1, len(CORNERS))
    slope = (mx.log(densities + FLOOR)[:, :, None] * corners).sum(axis=1)
    length = mx.sqrt(mx.square(slope).sum(axis=1, keepdims=True))
    return -slope / mx.maximum(length, LEAST)
