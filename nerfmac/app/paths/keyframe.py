"""`Keyframe`: a camera at one moment of a path, and how it gets there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nerfmac.common import checks
from nerfmac.common.checks import InputError
from nerfmac.geometry.cameras import Camera
from nerfmac.geometry.lenses import Lens, focal_length

RIGID_WITHIN = 1e-3
"""Largest entry of |R^T R - 1| of a pose: files written by hand may round to four digits."""

MOST_SECONDS = 3600.0
"""Longest time from one keyframe to the next, in seconds."""


@dataclass(frozen=True, eq=False)
class Keyframe:
    """A camera-to-scene `pose`, float64 (3, 4), and the vertical field of view in radians.

    `seconds` is the time since the previous keyframe; None: the time at the mean speed of the timed
    parts. For the first keyframe of an open path it is ignored. With `ease` the camera slows down,
    stops here, and speeds up again.

    Raises InputError for a pose that is not a finite rotation and position, a `fov` that is not
    between 0 and pi, and `seconds` that are not between 0 (left out) and 3600.
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
                f"pose is not rigid: R^T R is {error:.3g} from 1, or it mirrors; expected a "
                "rotation and a position"
            )
        pose.setflags(write=False)
        object.__setattr__(self, "pose", pose)
        focal_length("fov", self.fov, 1)
        object.__setattr__(self, "fov", float(self.fov))
        if self.seconds is not None:
            checks.number("seconds", self.seconds, high=MOST_SECONDS)
            if self.seconds <= 0.0:
                raise InputError(
                    f"seconds is {self.seconds:g}; expected more than 0, and up to {MOST_SECONDS:g}"
                )
            object.__setattr__(self, "seconds", float(self.seconds))

    def camera(self, width: int, height: int) -> Camera:
        """Return the camera for images of `width` x `height` square pixels, undistorted."""
        checks.number("width", width, low=1, whole=True)
        checks.number("height", height, low=1, whole=True)
        focal = focal_length("fov", self.fov, height)
        lens = Lens(width, height, focal, focal, width / 2, height / 2)
        return Camera(lens, self.pose.astype(np.float32))
