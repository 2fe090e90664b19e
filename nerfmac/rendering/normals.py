"""Which way surfaces face: the direction in which the density falls most steeply."""

from __future__ import annotations

from collections.abc import Callable

import mlx.core as mx

CORNERS = tuple((x, y, z) for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0))
"""The corners of a cube. Derivatives of a hash grid jump between the cells of its finest level, so
they would show the grid, not the surface. Differences of the density's logarithm between these
eight points show flat faces as flat. Six or four points give stains, and the density itself instead
of its logarithm gives patches.
"""

FLOOR = 1e-3
"""A density, per scene unit: differences far below it count as none."""

LEAST = 1e-4
"""The largest slope, as a sum over the corners, that may be rounding alone."""


def normals(
    density: Callable[[mx.array], mx.array], position: mx.array, reach: mx.array
) -> mx.array:
    """(points, 3) unit normals at `position` (points, 3), pointing out of what is dense.

    `density` gives (points,) per scene unit at (points, 3). It is compared between the corners of
    cubes, `reach` (points,) scene units from the middle to a face. Where it is the same at all of
    them the normal is next to zero.
    """
    corners = mx.array(CORNERS)
    around = position[:, None] + corners * reach[:, None, None]
    found = density(around.reshape(-1, 3)).reshape(-1, len(CORNERS))
    values = mx.log(found + FLOOR)
    slope = (values[:, :, None] * corners).sum(axis=1)
    length = mx.sqrt(mx.square(slope).sum(axis=1, keepdims=True))
    return -slope / mx.maximum(length, LEAST)
