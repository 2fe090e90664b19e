"""The pyramid of space that a view may see: all directions between those of its pixels.

A view's pixels are taken to the plane at depth one by the same inverse of the lens that gives them
their rays; the pyramid stands on the rectangle that holds them there. So what a pixel's ray passes
through is inside, whatever the lens does: to project places through the lens instead would put
places far outside the view back into the picture where the lens folds, and leave out pixels there.
"""

from __future__ import annotations

from typing import NamedTuple

import mlx.core as mx

from nerfmac.geometry.cameras import Cameras
from nerfmac.geometry.lenses import undistort

MARGIN = 0.1
"""The rectangle is wider and higher by this fraction on each side: poses are estimates."""

MOST_PIXELS = 256
"""Along each side of a distorted picture, whose pixels' directions are looked at."""


class Frustum(NamedTuple):
    """One view's pyramid: its pose (3, 4), and its rectangle at depth one, y down; float32."""

    pose: mx.array
    left: mx.array  # (), as all that follow
    right: mx.array
    top: mx.array
    bottom: mx.array


def frustum_of(cameras: Cameras, view: int) -> Frustum:
    """The pyramid of one of the `cameras`; evaluates nothing."""
    # A pinhole's directions lie between those of the corners.
    across = min(cameras.width, MOST_PIXELS) + 1 if cameras.is_distorted else 2
    down = min(cameras.height, MOST_PIXELS) + 1 if cameras.is_distorted else 2
    column, row = mx.meshgrid(
        mx.linspace(0, cameras.width, across), mx.linspace(0, cameras.height, down)
    )
    pixel = mx.stack([column.reshape(-1), row.reshape(-1)], axis=-1)
    point = (pixel - cameras.intrinsics[view, 2:]) / cameras.intrinsics[view, :2]
    if cameras.is_distorted:
        point = undistort(point, cameras.distortion[view][None])
    low, high = point.min(axis=0), point.max(axis=0)
    margin = MARGIN * (high - low)
    low, high = low - margin, high + margin
    return Frustum(cameras.poses[view], low[0], high[0], low[1], high[1])


@mx.compile
def reaches(centre: mx.array, radius: mx.array, frustum: Frustum) -> mx.array:
    """(n,) bool: whether a ball about `centre` (n, 3), of `radius` (n,), may be partly inside.

    Lengths are in scene units. A ball that is inside is never missed; of those outside, some that
    are near an edge of the pyramid are let through.
    """
    pose, *sides = frustum
    offset = [centre[:, i] - pose[i, 3] for i in range(3)]
    x, up, back = (sum(offset[i] * pose[i, axis] for i in range(3)) for axis in range(3))
    depth = mx.maximum(-back, 0.0)
    left, right, top, bottom = sides
    is_inside = back < radius
    for beyond, slope in (
        (left * depth - x, left),
        (x - right * depth, right),
        (top * depth + up, top),
        (-up - bottom * depth, bottom),
    ):
        # The distance from a side of the pyramid is measured across that side.
        is_inside = is_inside & (beyond < radius * mx.sqrt(1.0 + slope * slope))
    return is_inside
