"""Findings about cameras: implausible positions, directions and lenses."""

from __future__ import annotations

from collections.abc import Sequence
from math import atan, degrees

import mlx.core as mx
import numpy as np

from nerfmac.app.inspection.findings import summed_up
from nerfmac.geometry.cameras import Camera, nearest_to_axes
from nerfmac.geometry.lenses import Lens, distort

FAR = 4.0
"""A camera is far away if its distance from the median position exceeds this many median
distances."""
SAME = 1e-4
"""Two cameras are the same if both their distance, over the median distance from the median
position, and the length of the difference of their unit axes are below this."""
TOGETHER = 0.8
"""Fraction of cameras that must look at one target, or be level, before others are reported."""
ASTRAY = 60.0
"""A camera looks astray if the common target is more than this many degrees off its axis."""
ROLLED = 60.0
"""Degrees of roll above which a camera is reported if most cameras roll less than half of it."""
STEEP = 0.2
"""Sine of the angle between viewing axis and up direction; below it the roll is ignored."""
SQUARE = 1.1
"""Ratio of fl_y to fl_x, or its inverse, from which a lens is implausible; cameras have square
pixels."""
NARROWEST, WIDEST, WIDEST_FISHEYE = 0.5, 175.0, 220.0
"""Horizontal fields of view in degrees, outside of which no camera is."""
OFF_CENTER = 0.2
"""Distance of the principal point from the center, as a fraction of a side, from which it is
reported. Cameras and their calibrations stay below 0.1."""
BENT = 0.5
"""A lens is implausible if distortion shifts a image's corner by more than this times the
corner's distance from the principal point; wide-angle lenses of action cameras reach 0.2."""


def camera_findings(
    names: Sequence[str], cameras: Sequence[Camera], up: tuple[float, float, float]
) -> list[str]:
    """Lines about cameras that are far away, look astray, roll, or repeat another camera.

    `names` are the images' names; `up` (3,) is a unit vector to the sky.
    """
    poses = np.stack([camera.pose for camera in cameras]).astype(np.float64)
    eyes, axes, rights = poses[:, :, 3], -poses[:, :, 2], poses[:, :, 0]
    distance = np.linalg.norm(eyes - np.median(eyes, axis=0), axis=1)
    median = max(float(np.median(distance)), 1e-9)
    far = [
        f"{names[index]} was taken {distance[index] / median:.0f} times as far away as the others"
        for index in np.flatnonzero(distance > FAR * median).tolist()
    ]
    angles = _angles_to_target(eyes, axes)
    together = (angles < ASTRAY).mean() >= TOGETHER
    astray = [
        f"{names[index]} looks {angles[index]:.0f} degrees past what the others look at"
        for index in np.flatnonzero(together & (angles > ASTRAY)).tolist()
    ]
    across, upwards = rights @ np.array(up), poses[:, :, 1] @ np.array(up)
    roll = np.degrees(np.abs(np.arctan2(across, upwards)))
    roll[np.hypot(across, upwards) < STEEP] = 0.0
    level = (roll < ROLLED / 2).mean() >= TOGETHER
    rolled = [
        f"{names[index]} is rolled by {roll[index]:.0f} degrees, unlike the others"
        for index in np.flatnonzero(level & (roll > ROLLED)).tolist()
    ]
    twice = []
    for index in range(1, len(names)):
        same = np.linalg.norm(eyes[:index] - eyes[index], axis=1) < SAME * median
        same &= np.linalg.norm(axes[:index] - axes[index], axis=1) < SAME
        if same.any():
            twice.append(f"{names[index]} has the same camera as {names[int(same.argmax())]}")
    return [
        *summed_up(far, "were taken from far away"),
        *summed_up(astray, "look past what the others look at"),
        *summed_up(rolled, "are rolled, unlike the others"),
        *summed_up(twice, "have the camera of an earlier one"),
    ]


def bent_findings(names: Sequence[str], lenses: Sequence[Lens]) -> list[str]:
    """Lines about lenses whose distortion is implausible, each with its first image's name."""
    lines = [
        f"the lens of {name} moves the corners of its image by {shift:.2g} times their distance "
        f"from the middle (k1 {lens.k1:.3g}, k2 {lens.k2:.3g}, k3 {lens.k3:.3g}, k4 {lens.k4:.3g}, "
        f"p1 {lens.p1:.3g}, p2 {lens.p2:.3g}): these are hardly the coefficients of a camera"
        for name, lens in _unique(names, lenses)
        if (shift := _corner_shift(lens)) > BENT
    ]
    return summed_up(lines, "have lenses whose distortion is hardly a camera's")


def impossible_findings(names: Sequence[str], lenses: Sequence[Lens]) -> list[str]:
    """Lines about lenses that no camera has, each with its first image's name."""
    lines = []
    for name, lens in _unique(names, lenses):
        angle = degrees(lens.width / lens.fl_x)
        if not lens.is_fisheye:
            angle = degrees(2 * atan(0.5 * lens.width / lens.fl_x))
        shift = max(abs(lens.cx / lens.width - 0.5), abs(lens.cy / lens.height - 0.5))
        size = f"{lens.width}x{lens.height} pixels"
        if not NARROWEST < angle < (WIDEST_FISHEYE if lens.is_fisheye else WIDEST):
            lines.append(
                f"the lens of {name} is {angle:.2g} degrees wide, which no camera is (focal length "
                f"{lens.fl_x:.5g}, {size}): check the focal length or the field of view"
            )
        if shift > OFF_CENTER:
            lines.append(
                f"the lens of {name} has its principal point at ({lens.cx:.5g}, {lens.cy:.5g}), "
                f"far from the center of {size}: check cx, cy, w, and h"
            )
    return summed_up(lines, "have lenses that no camera has")


def lens_findings(names: Sequence[str], lenses: Sequence[Lens]) -> list[str]:
    """Lines about lenses that are impossible, have implausible distortion, or pixels that are not
    square."""
    lines = [
        f"the lens of {name} has pixels that are not square: fl_y / fl_x is "
        f"{lens.fl_y / lens.fl_x:.3g} ({lens.fl_y:.5g} and {lens.fl_x:.5g}); if images come out "
        "stretched, one of them is wrong"
        for name, lens in _unique(names, lenses)
        if not 1 / SQUARE < lens.fl_y / lens.fl_x < SQUARE
    ]
    stretched = summed_up(lines, "have lenses whose pixels are not square")
    return impossible_findings(names, lenses) + bent_findings(names, lenses) + stretched


def _angles_to_target(eyes: np.ndarray, axes: np.ndarray) -> np.ndarray:
    """Degrees (n,) between each camera's axis and the direction to the point nearest to all axes.

    `eyes` and `axes` are (n, 3).
    """
    target = nearest_to_axes(eyes, axes)
    if target is None:  # parallel axes
        target = eyes.mean(axis=0)
    toward = target - eyes
    toward /= np.maximum(np.linalg.norm(toward, axis=1, keepdims=True), 1e-12)
    return np.degrees(np.arccos(np.clip((toward * axes).sum(axis=1), -1, 1)))


def _unique(names: Sequence[str], lenses: Sequence[Lens]) -> list[tuple[str, Lens]]:
    """Each lens once, with the first of its images."""
    first = {lens: name for name, lens in zip(reversed(names), reversed(lenses), strict=True)}
    return sorted((name, lens) for lens, name in first.items())


def _corner_shift(lens: Lens) -> float:
    """Largest shift of a image's corner by distortion, as a fraction of the corner's distance
    from the principal point."""
    x = (np.array([0, lens.width, lens.width, 0]) - lens.cx) / lens.fl_x
    y = (np.array([0, 0, lens.height, lens.height]) - lens.cy) / lens.fl_y
    corners, radius = np.stack([x, y], axis=1), np.hypot(x, y)
    if lens.is_fisheye:
        powers = radius[:, None] ** (2, 4, 6, 8)
        return float(np.abs(powers @ (lens.k1, lens.k2, lens.k3, lens.k4)).max())
    moved = distort(mx.array(corners, mx.float32), mx.array([lens.distortion], mx.float32))
    shift = np.linalg.norm(np.array(moved) - corners, axis=1)
    return float((shift / np.maximum(radius, 1e-6)).max())
