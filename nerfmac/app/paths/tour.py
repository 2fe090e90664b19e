"""A tour along given cameras: the path of a steady hand, with a level horizon.

A hand shakes, and a path through every camera would shake with it. So the tour is the cameras'
Gaussian-weighted mean along their path. Around a center it averages directions and distances, as
the mean of positions would come too near.

Cameras that were not taken one after another, such as random ones of a rendered data set, are
visited in the order of their angles around the center.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from nerfmac.app.paths.rig import CIRCLE, STEEPEST, Rig
from nerfmac.common import checks
from nerfmac.geometry.cameras import Camera

Array = npt.NDArray[np.float64]

SPLITS = ("train", "test")
"""Splits whose cameras a tour can follow."""
TOUR_SECONDS = 10.0
"""Default duration of a tour, in seconds."""
STEADINESS = 0.06
"""Standard deviation of the Gaussian that smooths a tour, as a fraction of the path's length."""
UNORDERED = 1.5
"""If the path through the cameras is longer than this factor times a nearest-neighbor path, the
cameras have no natural order."""
POINTS = 1024
"""Number of points of the path at which the cameras' means are computed; frames are interpolated
between them."""


def tour(
    cameras: Sequence[Camera],
    *,
    up: npt.ArrayLike,
    frames: int,
    size: tuple[int, int] | None = None,
    center: npt.ArrayLike | None = None,
) -> list[Camera]:
    """Return `frames` cameras, evenly spaced on a smooth path along `cameras`.

    It leads from near the first camera to near the last. Arguments and errors are those of `orbit`.
    """
    checks.number("frames", frames, low=1, whole=True)
    rig = Rig.of(cameras, up, size, center)
    poses = np.stack([camera.pose for camera in cameras]).astype(np.float64)
    poses = poses[_order(poses, rig)]
    eyes, back = _smoothed(poses[:, :, 3], poses[:, :, 2], rig)
    walked = _walked(eyes, back)
    marks = np.linspace(0.0, walked[-1], frames)
    return [
        Camera.look_at(eye, eye - axis, rig.frame[2], rig.lens)
        for eye, axis in zip(*(_resampled(marks, walked, c) for c in (eyes, back)), strict=True)
    ]


def _smoothed(eyes: Array, back: Array, rig: Rig) -> tuple[Array, Array]:
    """Weighted means (POINTS, 3) of `eyes` and of the axes `back`, both (n, 3), along the path."""
    walked = _walked(eyes, back)
    marks = np.linspace(0.0, walked[-1], POINTS)
    deviation = (marks - marks[:, None]) / (STEADINESS * walked[-1] or 1.0)
    weight = np.exp(-0.5 * deviation**2)
    weight /= weight.sum(axis=1, keepdims=True)

    def smoothed(values: Array) -> Array:
        return weight @ _resampled(marks, walked, values)

    axes = _leveled(smoothed(back), rig)
    if rig.distance <= 0.0:
        return smoothed(eyes), axes
    outward = eyes - rig.center
    distance = np.linalg.norm(outward, axis=1, keepdims=True)
    return rig.center + smoothed(distance) * _unit(smoothed(outward / distance)), axes


def _resampled(marks: Array, walked: Array, columns: Array) -> Array:
    """Interpolate `columns` (n, k), given at lengths `walked` (n,), at the lengths `marks`."""
    return np.stack([np.interp(marks, walked, column) for column in columns.T], axis=1)


def _leveled(back: Array, rig: Rig) -> Array:
    """Unit vectors along `back` (n, 3), with elevations of at most STEEPEST up or down."""
    east, north, high = (_unit(back) @ rig.frame.T).T
    level = np.sqrt(np.maximum(1.0 - high**2, 1e-12))
    elevation = np.clip(np.arctan2(high, level), -STEEPEST, STEEPEST)
    scale = np.cos(elevation) / level
    return np.stack([east * scale, north * scale, np.sin(elevation)], axis=1) @ rig.frame


def _unit(vectors: Array) -> Array:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)


def _walked(eyes: Array, back: Array) -> Array:
    """Lengths (n,) along the path from the first camera.

    Positions count in units of their spread, axes in radians.
    """
    spread = np.sqrt(np.mean(np.sum((eyes - eyes.mean(axis=0)) ** 2, axis=1)))
    moved = np.diff(eyes, axis=0) / max(float(spread), 1e-9)
    steps = np.sqrt(np.sum(moved**2, axis=1) + np.sum(np.diff(back, axis=0) ** 2, axis=1))
    return np.r_[0.0, np.cumsum(steps)]


def _order(poses: Array, rig: Rig) -> npt.NDArray[np.int64]:
    """The order in which to visit the cameras of `poses` (n, 3, 4)."""
    given, nearest = np.arange(len(poses)), _nearest_neighbors(poses[:, :, 3])
    lengths = [_walked(poses[i, :, 3], poses[i, :, 2])[-1] for i in (given, nearest)]
    if lengths[0] <= UNORDERED * lengths[1]:
        return given
    east, north, _ = rig.frame @ (poses[:, :, 3] - rig.center).T
    return np.argsort((np.arctan2(north, east) - rig.arc[0] + 1e-6) % CIRCLE)


def _nearest_neighbors(eyes: Array) -> npt.NDArray[np.int64]:
    """The order from the first of `eyes` (n, 3) always on to the nearest remaining one."""
    remaining, order = list(range(1, len(eyes))), [0]
    while remaining:
        distance = np.sum((eyes[remaining] - eyes[order[-1]]) ** 2, axis=1)
        order.append(remaining.pop(int(np.argmin(distance))))
    return np.array(order)
