"""`Keyframe`: where the camera is at one moment of a path, and how it comes there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nerfmac.common import checks
from nerfmac.common.checks import InputError
from nerfmac.geometry.cameras import Camera
from nerfmac.geometry.lenses import Lens, focal_length

Array = npt.NDArray[np.float64]

RIGID = 1e-3
"""How far R^T R may be from the identity: files written by hand may round to four digits."""

LONGEST = 3600.0
"""Seconds from one keyframe to the next, at most."""


@dataclass(frozen=True, eq=False)
class Keyframe:
    """A camera to scene `pose`, float64 (3, 4), and the vertical field of view in radians.

    `seconds` is how long the camera takes from the keyframe before; None: as long as at the speed
    of the rest of the path. On an open path that of the first keyframe has no meaning. With `ease`
    the camera slows down to a rest there, and leaves slowly.

    Raises InputError for a pose that is not a finite rotation and place, a `fov` that is not
    between 0 and pi, and `seconds` that are not between 0 (left out) and 3600.
    """

    pose: Array
    fov: float
    seconds: float | None = None
    ease: bool = False

    def __post_init__(self) -> None:
        pose = checks.finite("pose", self.pose, (3, 4))
        rotation = pose[:, :3]
        if np.abs(rotation.T @ rotation - np.eye(3)).max() > RIGID or np.linalg.det(rotation) < 0.0:
            raise InputError("pose is not rigid; expected a rotation and a place")
        pose.setflags(write=False)
        object.__setattr__(self, "pose", pose)
        focal_length("fov", self.fov, 1)
        object.__setattr__(self, "fov", float(self.fov))
        if self.seconds is not None:
            checks.number("seconds", self.seconds, high=LONGEST)
            if self.seconds <= 0.0:
                raise InputError(f"seconds is {self.seconds:g}; expected more than 0")
            object.__setattr__(self, "seconds", float(self.seconds))

    def camera(self, width: int, height: int) -> Camera:
        """The camera for pictures of `width` x `height` square pixels, without distortion."""
        checks.number("width", width, low=1, whole=True)
        checks.number("height", height, low=1, whole=True)
        focal = focal_length("fov", self.fov, height)
        lens = Lens(width, height, focal, focal, width / 2, height / 2)
        return Camera(lens, self.pose.astype(np.float32))
