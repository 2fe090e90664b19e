"""A tour along given cameras: the way that a steady hand would have taken, with a level horizon.

A hand shakes, and a path through every camera would shake with it. So the tour's points are means
of the cameras around them, with the weights of a bell curve over the way from camera to camera.
Around a centre directions and distances are averaged, not places, whose mean would come too near.

Cameras that were not taken one after another, such as those drawn at random for a rendered data
set, are visited in the order in which they stand around the centre.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from nerfmac.common import checks
from nerfmac.geometry.cameras import Camera
from nerfmac.paths.rig import CIRCLE, STEEPEST, Rig

Array = npt.NDArray[np.float64]

STEADY = 0.06
"""The bell curve's standard deviation, as a fraction of the way."""

SHORTCUT = 1.5
"""If the way is so many times that from each camera to the nearest one left, there is no order."""

POINTS = 1024
"""Points of the way at which means are taken; frames lie between them."""


def tour(
    cameras: Sequence[Camera],
    *,
    up: npt.ArrayLike,
    frames: int,
    size: tuple[int, int] | None = None,
    centre: npt.ArrayLike | None = None,
) -> list[Camera]:
    """Return `frames` cameras along `cameras`, evenly from about the first to about the last.

    Arguments and errors are those of `orbit`; one camera is enough.
    """
    checks.number("frames", frames, low=1, whole=True)
    rig = Rig.of(cameras, up, size, centre)
    poses = np.stack([camera.pose for camera in cameras]).astype(np.float64)
    poses = poses[_order(poses, rig)]
    places, back = _steadied(poses[:, :, 3], poses[:, :, 2], rig)
    way = _way(places, back)
    marks = np.linspace(0.0, way[-1], frames)
    places, back = (_along(marks, way, each) for each in (places, back))
    return [
        Camera.look_at(eye, eye - axis, rig.frame[2], rig.lens)
        for eye, axis in zip(places, back, strict=True)
    ]


def _steadied(places: Array, back: Array, rig: Rig) -> tuple[Array, Array]:
    """Means (POINTS, 3) of `places` and of the axes `back`, both (n, 3), evenly along the way."""
    way = _way(places, back)
    marks = np.linspace(0.0, way[-1], POINTS)
    apart = (marks - marks[:, None]) / (STEADY * way[-1] or 1.0)
    weight = np.exp(-0.5 * apart**2)
    weight /= weight.sum(axis=1, keepdims=True)

    def steadied(values: Array) -> Array:
        return weight @ _along(marks, way, values)

    axes = _level(steadied(back), rig)
    if rig.distance <= 0.0:
        return steadied(places), axes
    outward = places - rig.centre
    distance = np.linalg.norm(outward, axis=1, keepdims=True)
    return rig.centre + steadied(distance) * _unit(steadied(outward / distance)), axes


def _along(marks: Array, way: Array, columns: Array) -> Array:
    """`columns` (n, k), which are those at `way` (n,), at the `marks` between."""
    return np.stack([np.interp(marks, way, column) for column in columns.T], axis=1)


def _level(back: Array, rig: Rig) -> Array:
    """The unit axes along `back` (n, 3), none of them too near the upright one for a horizon."""
    east, north, high = (_unit(back) @ rig.frame.T).T
    level = np.sqrt(np.maximum(1.0 - high**2, 1e-12))
    elevation = np.clip(np.arctan2(high, level), -STEEPEST, STEEPEST)
    scale = np.cos(elevation) / level
    return np.stack([east * scale, north * scale, np.sin(elevation)], axis=1) @ rig.frame


def _unit(vectors: Array) -> Array:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)


def _way(places: Array, back: Array) -> Array:
    """(n,) distances from the first camera: places in units of their spread, axes in radians."""
    spread = np.sqrt(np.mean(np.sum((places - places.mean(axis=0)) ** 2, axis=1)))
    moved = np.diff(places, axis=0) / max(float(spread), 1e-9)
    steps = np.sqrt(np.sum(moved**2, axis=1) + np.sum(np.diff(back, axis=0) ** 2, axis=1))
    return np.r_[0.0, np.cumsum(steps)]


def _order(poses: Array, rig: Rig) -> npt.NDArray[np.int64]:
    """The order in which the cameras of `poses` (n, 3, 4) are visited."""
    given, short = np.arange(len(poses)), _short(poses[:, :, 3])
    lengths = [_way(poses[each, :, 3], poses[each, :, 2])[-1] for each in (given, short)]
    if lengths[0] <= SHORTCUT * lengths[1]:
        return given
    east, north, _ = rig.frame @ (poses[:, :, 3] - rig.centre).T
    return np.argsort((np.arctan2(north, east) - rig.arc[0] + 1e-6) % CIRCLE)


def _short(places: Array) -> npt.NDArray[np.int64]:
    """From the first of `places` (n, 3) always on to the nearest of those that are left."""
    left, order = list(range(1, len(places))), [0]
    while left:
        away = np.sum((places[left] - places[order[-1]]) ** 2, axis=1)
        order.append(left.pop(int(np.argmin(away))))
    return np.array(order)
