"""`Keyframe`, a camera pose and field of view on a camera path."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nerfmac.common import InputError, checks
from nerfmac.geometry import Camera, Lens, focal_length

RIGID_WITHIN = 1e-3  # Tolerance of |R^T R - I| for rotations R, for rounded numbers.
MAX_SECONDS = 3600.0  # Maximum time in seconds between two keyframes.


def vertical_fov(lens: Lens) -> float:
    """Return the vertical field of view in radians, ignoring distortion."""
    return 2.0 * math.atan(lens.tangents[1])


def even_size(size: tuple[int, int]) -> tuple[int, int]:
    """Return a width and height in pixels, at least 2, rounded down to even numbers for videos."""
    for name, side in zip(("width", "height"), size, strict=True):
        checks.number(name, side, low=2, whole=True)
    return size[0] // 2 * 2, size[1] // 2 * 2


@dataclass(frozen=True, eq=False)
class Keyframe:
    """Camera pose and field of view on a camera path, with the time of the camera at this pose.

    Attributes:
        pose: Camera-to-scene pose, float64 (3, 4).
        fov: Vertical field of view in radians, between 0 and pi.
        seconds: Time in seconds since the previous keyframe, above 0 and up to 3600. If None, the
            camera moves at the mean speed of the segments with a duration. For the first keyframe
            of an open path, this attribute is ignored.
        ease: Whether the camera slows down before this keyframe, stops, and speeds up again.

    Raises:
        InputError: If a value is out of range, or the pose is not a finite rotation and position.
    """

    pose: npt.NDArray[np.floating[Any]]
    fov: float
    seconds: float | None = None
    ease: bool = False

    def __post_init__(self) -> None:
        pose = checks.finite("pose", self.pose, (3, 4))
        rotation = pose[:, :3]
        error = np.abs(rotation.T @ rotation - np.eye(3)).max()
        if error > RIGID_WITHIN or np.linalg.det(rotation) < 0.0:
            raise InputError(
                f"pose must be a rotation and a translation, but its 3x3 part is not orthogonal "
                f"(error {error:.3g}) or has determinant -1"
            )
        pose.setflags(write=False)
        object.__setattr__(self, "pose", pose)
        focal_length("fov", self.fov, 1)
        object.__setattr__(self, "fov", float(self.fov))
        if self.seconds is not None:
            checks.number("seconds", self.seconds, high=MAX_SECONDS)
            if self.seconds <= 0.0:
                raise InputError(
                    f"seconds is {self.seconds:g}; expected a value above 0 and up to "
                    f"{MAX_SECONDS:g}"
                )
            object.__setattr__(self, "seconds", float(self.seconds))

    def camera(self, width: int, height: int) -> Camera:
        """Return an undistorted camera with square pixels.

        Args:
            width: Image width in pixels.
            height: Image height in pixels.

        Returns:
            Camera in the coordinates of the keyframe.
        """
        checks.number("width", width, low=1, whole=True)
        checks.number("height", height, low=1, whole=True)
        focal = focal_length("fov", self.fov, height)
        lens = Lens(width, height, focal, focal, width / 2, height / 2)
        return Camera(lens, self.pose.astype(np.float32))
