"""Moves, closed camera paths around the point that the training cameras look at, and tours.

    orbit             one turn, with the elevation and distance of the nearby training cameras
    spiral            two turns from low to high and back
    figure_of_eight   a horizontal figure of eight in front of the scene

If the training cameras show only one side, an orbit swings back and forth, and a spiral consists of
circles that grow and shrink. The camera looks at the center of the rig (`paths.rig`) with a level
horizon, from directions within the range of the training cameras.

A tour is a smooth path along given cameras, with a level horizon. Each camera is a
Gaussian-weighted mean of neighboring cameras, so that a handheld recording does not shake. If the
cameras surround a center, directions and distances are averaged, because the mean of positions
would be too close to the center. Cameras without a natural order are visited in the order of their
angles around the center.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nerfmac.app.paths.rig import CIRCLE, MAX_ELEVATION, Rig
from nerfmac.common import Float64Array, Int64Array, checks
from nerfmac.geometry import Camera

STEEP = math.radians(20.0)  # Maximum difference in elevation from the middle of a spiral.
EIGHT = math.radians(50.0), math.radians(10.0)  # Maximum half width and half height, in radians.


@dataclass(frozen=True)
class Move:
    """Move around a scene: a callable that creates the cameras of a closed path from training
    cameras.

    Attributes:
        camera_at: Function of a `Rig` and an angle from 0 (start of the path) to 2 pi (end). The
            function returns the camera at this position on the path.
        seconds: Default duration of the path in seconds.
    """

    camera_at: Callable[[Rig, float], Camera]
    seconds: float

    def __call__(
        self,
        cameras: Sequence[Camera],
        *,
        up: npt.ArrayLike,
        frames: int,
        size: tuple[int, int] | None = None,
        center: npt.ArrayLike | None = None,
    ) -> list[Camera]:
        """Fit a closed path to training cameras.

        An orbit with a full turn is counter-clockwise as seen from above. The path is closed, so
        that the first camera follows the last one.

        Args:
            cameras: Training cameras.
            up: Up direction (3,) of the scene, of any length.
            frames: Number of cameras.
            size: Width and height of a frame in pixels, rounded down to even numbers. By default,
                the size of the first camera.
            center: Point (3,) to look at. By default, the point closest to the camera axes.

        Returns:
            `frames` cameras in scene coordinates, without lens distortion.

        Raises:
            InputError: If `cameras` is empty, if all cameras have the same position and direction,
                or if a number is out of range.
        """
        checks.number("frames", frames, low=1, whole=True)
        rig = Rig.of(cameras, up, size, center)
        return [self.camera_at(rig, turn) for turn in CIRCLE * np.arange(frames) / frames]


def _orbit(rig: Rig, turn: float) -> Camera:
    start, arc = rig.arc
    azimuth = start + (turn if rig.goes_round else 0.5 * arc * (1.0 + math.sin(turn)))
    return rig.camera(azimuth, *rig.place_at(azimuth))


def _spiral(rig: Rig, turn: float) -> Camera:
    start, arc = rig.arc
    low, high = rig.heights(STEEP)
    grown = 0.5 - 0.5 * math.cos(turn)
    if rig.goes_round:
        return rig.camera(start + 2.0 * turn, low + grown * (high - low))
    across, above = grown * math.sin(2.0 * turn), grown * math.cos(2.0 * turn)
    return rig.camera(start + 0.5 * arc * (1.0 + across), _between(low, high, above))


def _figure_of_eight(rig: Rig, turn: float) -> Camera:
    start, arc = rig.arc
    middle = start if rig.goes_round else start + 0.5 * arc
    low, high = rig.heights(EIGHT[1])
    azimuth = middle + min(0.5 * arc, EIGHT[0]) * math.sin(turn)
    return rig.camera(azimuth, _between(low, high, math.sin(2.0 * turn)))


def _between(low: float, high: float, position: float) -> float:
    """Interpolate linearly from `low` at position -1 to `high` at position 1."""
    return 0.5 * (low + high) + 0.5 * (high - low) * position


orbit = Move(_orbit, 5.0)
spiral = Move(_spiral, 10.0)
figure_of_eight = Move(_figure_of_eight, 6.0)

MOVES = {"orbit": orbit, "spiral": spiral, "figure-of-eight": figure_of_eight}
"""Moves, keyed by their names in the command line and in the viewer."""


SPLITS = ("train", "test")  # Names of the splits that a tour can follow.
TOUR_SECONDS = 10.0  # Default duration of a tour in seconds.
STEADINESS = 0.06  # Standard deviation of the smoothing, relative to the path length.
UNORDERED = 1.5
"""Maximum length of the path through the cameras in the given order, relative to a nearest-neighbor
path. If the path is longer, the cameras have no natural order."""
POINTS = 1024  # Number of smoothed cameras. Frames are interpolated between them.


def tour(
    cameras: Sequence[Camera],
    *,
    up: npt.ArrayLike,
    frames: int,
    size: tuple[int, int] | None = None,
    center: npt.ArrayLike | None = None,
) -> list[Camera]:
    """Create a smooth path along cameras, from near the first camera to near the last camera.

    Args:
        cameras: Cameras to follow.
        up: Up direction (3,) of the scene.
        frames: Number of cameras.
        size: Width and height of a frame in pixels. By default, the size of the first camera.
        center: Point (3,) to look at. By default, the point closest to the camera axes.

    Returns:
        `frames` cameras in scene coordinates, evenly spaced along the path.

    Raises:
        InputError: In the same cases as `orbit`.
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


def _smoothed(
    eyes: Float64Array, back: Float64Array, rig: Rig
) -> tuple[Float64Array, Float64Array]:
    """Smooth positions and backward axes (n, 3), and return them at POINTS points, (POINTS, 3)."""
    walked = _walked(eyes, back)
    marks = np.linspace(0.0, walked[-1], POINTS)
    deviation = (marks - marks[:, None]) / (STEADINESS * walked[-1] or 1.0)
    weight = np.exp(-0.5 * deviation**2)
    weight /= weight.sum(axis=1, keepdims=True)

    def smoothed(values: Float64Array) -> Float64Array:
        return weight @ _resampled(marks, walked, values)

    axes = _leveled(smoothed(back), rig)
    if rig.distance <= 0.0:
        return smoothed(eyes), axes
    outward = eyes - rig.center
    distance = np.linalg.norm(outward, axis=1, keepdims=True)
    return rig.center + smoothed(distance) * _unit(smoothed(outward / distance)), axes


def _resampled(marks: Float64Array, walked: Float64Array, columns: Float64Array) -> Float64Array:
    """Interpolate values (n, k) at the path lengths `walked` (n,) to the path lengths `marks`."""
    return np.stack([np.interp(marks, walked, column) for column in columns.T], axis=1)


def _leveled(back: Float64Array, rig: Rig) -> Float64Array:
    """Normalize the backward axes `back` (n, 3), and limit their elevation to `MAX_ELEVATION`."""
    east, north, high = (_unit(back) @ rig.frame.T).T
    level = np.sqrt(np.maximum(1.0 - high**2, 1e-12))
    elevation = np.clip(np.arctan2(high, level), -MAX_ELEVATION, MAX_ELEVATION)
    scale = np.cos(elevation) / level
    return np.stack([east * scale, north * scale, np.sin(elevation)], axis=1) @ rig.frame


def _unit(vectors: Float64Array) -> Float64Array:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)


def _walked(eyes: Float64Array, back: Float64Array) -> Float64Array:
    """Return the path length (n,) from the first camera to each camera. It combines the change of
    the position, relative to the spread of all positions, and the change of the axis in radians."""
    spread = np.sqrt(np.mean(np.sum((eyes - eyes.mean(axis=0)) ** 2, axis=1)))
    moved = np.diff(eyes, axis=0) / max(float(spread), 1e-9)
    steps = np.sqrt(np.sum(moved**2, axis=1) + np.sum(np.diff(back, axis=0) ** 2, axis=1))
    return np.r_[0.0, np.cumsum(steps)]


def _order(poses: Float64Array, rig: Rig) -> Int64Array:
    """Return the indices (n,) of the cameras with `poses` (n, 3, 4), in the order of the tour."""
    given, nearest = np.arange(len(poses)), _nearest_neighbors(poses[:, :, 3])
    lengths = [_walked(poses[i, :, 3], poses[i, :, 2])[-1] for i in (given, nearest)]
    if lengths[0] <= UNORDERED * lengths[1]:
        return given
    east, north, _ = rig.frame @ (poses[:, :, 3] - rig.center).T
    return np.argsort((np.arctan2(north, east) - rig.arc[0] + 1e-6) % CIRCLE)


def _nearest_neighbors(eyes: Float64Array) -> Int64Array:
    """Return the order that starts at the first position and continues with the nearest one."""
    remaining, order = list(range(1, len(eyes))), [0]
    while remaining:
        distance = np.sum((eyes[remaining] - eyes[order[-1]]) ** 2, axis=1)
        order.append(remaining.pop(int(np.argmin(distance))))
    return np.array(order)
