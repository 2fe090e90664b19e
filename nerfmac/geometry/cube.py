"""Where rays cross the scene's cube, which has the side `extent` around (0.5, 0.5, 0.5)."""

from __future__ import annotations

import mlx.core as mx

_FLAT = 1e-9  # a direction's component that is smaller counts as parallel to faces


def crossing(
    origins: mx.array, directions: mx.array, extent: float, near: float
) -> tuple[mx.array, mx.array]:
    """Distances (rays,) at which rays enter the cube, but at least `near`, and leave it.

    `origins` (rays, 3) are in scene coordinates, `directions` (rays, 3) unit. If a ray has no part
    inside the cube beyond `near`, and only then, it leaves no later than it enters.
    """
    half = extent / 2
    is_flat = mx.abs(directions) < _FLAT
    slope = mx.where(is_flat, 1.0, directions)
    a, b = (-half - (origins - 0.5)) / slope, (half - (origins - 0.5)) / slope
    is_outside = mx.any(is_flat & (mx.abs(origins - 0.5) > half), axis=1)
    enter = mx.where(is_flat, -1e9, mx.minimum(a, b)).max(axis=1)
    leave = mx.where(is_flat, 1e9, mx.maximum(a, b)).min(axis=1)
    return mx.maximum(enter, near), mx.where(is_outside, -1.0, leave)
