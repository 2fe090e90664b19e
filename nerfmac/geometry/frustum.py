"""The pyramid of space that a view may see: all directions between those of its pixels.

The rays of the view's pixels are cut with the plane at depth one, and the smallest rectangle there
that holds them all is the pyramid's base. So whatever a pixel's ray passes through is inside, for
any lens. The other way round, projecting places through the lens, fails for a lens that folds: it
puts places far outside the view into the picture, and misses pixels there.
"""

from __future__ import annotations

from typing import NamedTuple

import mlx.core as mx

from nerfmac.geometry.cameras import Cameras
from nerfmac.geometry.lenses import undistort

MARGIN = 0.1
"""The rectangle is enlarged by this fraction on each side, because poses are estimates."""

MOST_PIXELS = 256
"""Most pixels along a side of a distorted picture whose rays are computed."""


class Frustum(NamedTuple):
    """One view's pyramid: its pose (3, 4), and its rectangle at depth one, y down; float32."""

    pose: mx.array
    left: mx.array  # (), like the next three
    right: mx.array
    top: mx.array
    bottom: mx.array


def frustum_of(cameras: Cameras, view: int) -> Frustum:
    """The pyramid of one of the `cameras`, not evaluated."""
    # Without distortion the corners' directions bound all others.
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

    Lengths are in scene units. True for every ball that is partly inside, and also for some balls
    outside that are near an edge of the pyramid.
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
        # The root makes `beyond` the distance perpendicular to that side of the pyramid.
        is_inside = is_inside & (beyond < radius * mx.sqrt(1.0 + slope * slope))
    return is_inside
