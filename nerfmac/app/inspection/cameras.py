"""Detection of cameras with implausible positions, directions, or intrinsics."""

from collections.abc import Sequence
from math import atan, degrees

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from nerfmac.app.inspection.images import summed_up
from nerfmac.geometry import Camera, Lens, distort, in_image, nearest_to_axes

FAR = 4.0
"""Minimum distance of a far camera from the median position, relative to the median distance."""
SAME = 1e-4
"""Maximum difference of equal cameras: of the positions relative to the median distance, and of the
entries of the rotation matrices."""
TOGETHER = 0.8
"""Minimum fraction of cameras with a common target (or that are level) to report the others."""
ASTRAY = 60.0
"""Angle in degrees between the viewing axis and the common target above which a camera is
reported."""
ROLLED = 60.0
"""Cameras with a larger roll in degrees are reported if the roll of most is below half of it."""
STEEP = 0.2
"""Sine of the angle between the viewing axis and the up direction below which roll is ignored."""
SQUARE = 1.1
"""Ratio of the focal lengths that is reported, because pixels of real cameras are square."""
MIN_FOV, MAX_FOV, MAX_FISHEYE_FOV = 0.5, 175.0, 220.0
"""Range of plausible horizontal fields of view in degrees."""
OFF_CENTER = 0.2
"""Maximum distance of the principal point from the image center, relative to the image size. In
real cameras, it is below 0.1."""
BEHIND = 4.0
"""Ratio of the points behind the cameras to the points in front of them that is reported."""
MIN_CAMERAS = 3  # Minimum number of cameras that are said to look away from a common center.
MAX_POINTS = 2000  # Maximum number of points that are used for this, evenly spaced.
BENT = 0.5
"""Maximum plausible shift of an image corner by distortion, relative to its distance from the
principal point. With action cameras, it is up to 0.2."""


def camera_findings(
    names: Sequence[str], cameras: Sequence[Camera], up: tuple[float, float, float]
) -> list[str]:
    """Report cameras that are far away from the others, look in another direction, are rolled, or
    are equal to another camera. `up` is a unit vector."""
    poses = np.stack([camera.pose for camera in cameras]).astype(np.float64)
    eyes, axes, rights = poses[:, :, 3], -poses[:, :, 2], poses[:, :, 0]
    distance = np.linalg.norm(eyes - np.median(eyes, axis=0), axis=1)
    median = max(float(np.median(distance)), 1e-9)
    far = [
        f"{names[index]} is {distance[index] / median:.0f} times as far away as the other cameras"
        for index in np.flatnonzero(distance > FAR * median).tolist()
    ]
    angles = _angles_to_target(eyes, axes)
    together = (angles < ASTRAY).mean() >= TOGETHER
    astray = [
        f"{names[index]} looks {angles[index]:.0f} degrees away from the target of the others"
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
        same &= np.abs(poses[:index, :, :3] - poses[index, :, :3]).max(axis=(1, 2)) < SAME
        if same.any():
            twice.append(f"{names[index]} has the same camera as {names[int(same.argmax())]}")
    return [
        *summed_up(far, "are far away from the others"),
        *summed_up(astray, "do not look at the target of the other cameras"),
        *summed_up(rolled, "are rolled, unlike the others"),
        *summed_up(twice, "have the same camera as an earlier image"),
    ]


def axis_findings(cameras: Sequence[Camera], points: npt.NDArray[np.floating] | None) -> list[str]:
    """Report if the cameras probably have OpenCV axes, because the sparse points (n, 3) are behind
    them or, without points, because all of them look away from their common target."""
    poses = [np.asarray(camera.pose, np.float64) for camera in cameras]
    advice = (
        "if the poses have OpenCV axes (y down, z forward), negate the second and the third column "
        "of each transform_matrix, and if they map world to camera coordinates, invert them; "
        "`nerfmac inspect --match` finds out which"
    )
    if points is not None and len(points):
        points = np.asarray(points, np.float64)[:: -(-len(points) // MAX_POINTS)]
        counts = [
            sum(
                int(in_image(points, pose * (1, sign, sign, 1), camera.lens.tangents)[1].sum())
                for pose, camera in zip(poses, cameras, strict=True)
            )
            for sign in (1, -1)
        ]
        if counts[1] > BEHIND * counts[0]:
            return [f"the sparse points are behind the cameras, not in front of them; {advice}"]
        return []
    eyes, axes = np.stack([p[:, 3] for p in poses]), -np.stack([p[:, 2] for p in poses])
    if len(poses) >= MIN_CAMERAS and (_angles_to_target(eyes, axes) > 180 - ASTRAY).all():
        return [f"all cameras look outward, as in a room, away from their common center; {advice}"]
    return []


def lens_findings(names: Sequence[str], lenses: Sequence[Lens]) -> list[str]:
    """Report impossible fields of view and principal points, implausible distortion, and non-square
    pixels, with the name of the first image that has them."""
    impossible, bent, stretched = [], [], []
    first = {lens: name for name, lens in zip(reversed(names), reversed(lenses), strict=True)}
    for name, lens in sorted((name, lens) for lens, name in first.items()):
        angle = degrees(lens.width / lens.fl_x)
        if not lens.is_fisheye:
            angle = degrees(2 * atan(0.5 * lens.width / lens.fl_x))
        shift = max(abs(lens.cx / lens.width - 0.5), abs(lens.cy / lens.height - 0.5))
        size, ratio = f"{lens.width}x{lens.height} pixels", lens.fl_y / lens.fl_x
        if not MIN_FOV < angle < (MAX_FISHEYE_FOV if lens.is_fisheye else MAX_FOV):
            impossible.append(
                f"the field of view of {name} is {angle:.2g} degrees, which no camera has (focal "
                f"length {lens.fl_x:.5g}, {size}): check the focal length or the field of view"
            )
        if shift > OFF_CENTER:
            impossible.append(
                f"the principal point of {name} is ({lens.cx:.5g}, {lens.cy:.5g}), far from the "
                f"center of {size}: check cx, cy, w, and h"
            )
        if (moved := _corner_shift(lens)) > BENT:
            bent.append(
                f"the distortion of {name} moves the image corners by {moved:.2g} times their "
                f"distance from the center (k1 {lens.k1:.3g}, k2 {lens.k2:.3g}, k3 {lens.k3:.3g}, "
                f"k4 {lens.k4:.3g}, p1 {lens.p1:.3g}, p2 {lens.p2:.3g}), which is not plausible "
                "for a camera"
            )
        if not 1 / SQUARE < ratio < SQUARE:
            stretched.append(
                f"{name} has pixels that are not square: fl_y / fl_x is {ratio:.3g} "
                f"({lens.fl_y:.5g} and {lens.fl_x:.5g}); if renderings are stretched, one value is "
                "wrong"
            )
    return [
        *summed_up(impossible, "have impossible intrinsics"),
        *summed_up(bent, "have an implausible distortion"),
        *summed_up(stretched, "have pixels that are not square"),
    ]


def _angles_to_target(eyes: np.ndarray, axes: np.ndarray) -> np.ndarray:
    """Return the angle (n,) in degrees between each camera axis and the direction from the camera
    to the point nearest to all axes. `eyes` (n, 3) are the camera positions, and `axes` (n, 3) are
    the unit viewing axes."""
    target = nearest_to_axes(eyes, axes)
    if target is None:  # Parallel axes.
        target = eyes.mean(axis=0)
    toward = target - eyes
    toward /= np.maximum(np.linalg.norm(toward, axis=1, keepdims=True), 1e-12)
    return np.degrees(np.arccos(np.clip((toward * axes).sum(axis=1), -1, 1)))


def _corner_shift(lens: Lens) -> float:
    """Return the maximum shift of an image corner by distortion, relative to the distance of the
    corner from the principal point."""
    x = (np.array([0, lens.width, lens.width, 0]) - lens.cx) / lens.fl_x
    y = (np.array([0, 0, lens.height, lens.height]) - lens.cy) / lens.fl_y
    corners, radius = np.stack([x, y], axis=1), np.hypot(x, y)
    if lens.is_fisheye:
        powers = radius[:, None] ** (2, 4, 6, 8)
        return float(np.abs(powers @ (lens.k1, lens.k2, lens.k3, lens.k4)).max())
    moved = distort(mx.array(corners, mx.float32), mx.array([lens.distortion], mx.float32))
    shift = np.linalg.norm(np.array(moved) - corners, axis=1)
    return float((shift / np.maximum(radius, 1e-6)).max())
