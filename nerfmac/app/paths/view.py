"""`View`, the camera of the viewer and the point that it orbits. The page of the viewer moves the
camera by pointer and keys (`page/motion/navigation.js`), with the same limits."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from nerfmac.app.paths.keyframe import Keyframe, vertical_fov
from nerfmac.app.paths.moves import orbit
from nerfmac.app.paths.rig import center_of
from nerfmac.common import Float64Array, InputError, checks
from nerfmac.geometry import Camera, Sphere, focal_length

CLOSEST = 0.1  # Minimum distance between camera and center in scene units.
FARTHEST = 1e4
"""Maximum distance of the camera from the scene center in scene units. At larger distances, float32
cannot distinguish the samples of neighboring rays."""
FILLED = 0.5  # Fraction of the image height that the subject fills in the initial view.
NEAREST = 0.5  # Minimum distance of the initial view, relative to the training cameras.


@dataclass(frozen=True, eq=False)
class View:
    """Camera of the viewer and the center that it orbits. Each move returns a new view.

    Attributes:
        pose: Camera-to-scene pose, float64 (3, 4).
        center: Scene position that the camera orbits, float64 (3,).
        up: Up direction of the scene, float64 (3,), normalized.
        fov: Vertical field of view in radians.
    """

    pose: Float64Array
    center: Float64Array
    up: Float64Array
    fov: float

    def __post_init__(self) -> None:
        up = checks.finite("up", self.up, (3,))
        length = np.linalg.norm(up)
        if not length > 0.0:
            raise InputError("up is zero; expected a direction such as (0, 0, 1)")
        focal_length("fov", self.fov, 1)
        values = {
            "pose": checks.finite("pose", self.pose, (3, 4)),
            "center": checks.finite("center", self.center, (3,)),
            "up": up / length,
        }
        for name, value in values.items():
            value.setflags(write=False)
            object.__setattr__(self, name, value)

    @classmethod
    def initial(
        cls, cameras: Sequence[Camera], up: npt.ArrayLike, subject: Sphere | None = None
    ) -> Self:
        """Create the initial view of the viewer, from a position on the orbit around the scene.

        If the subject is known, its center is the center of the view, and the camera moves closer,
        to at least half its distance, until the subject fills half of the image height. Otherwise,
        the center is the center of the orbit or, if the cameras face outward, a point in front of
        the camera.
        """
        if subject is not None:
            camera = orbit(cameras, up=up, frames=1, center=subject.center)[0]
            view = cls._of(camera, np.array(subject.center), up)
            filling = subject.radius / (FILLED * math.tan(0.5 * view.fov))
            distance = max(min(max(filling, NEAREST * view.distance), view.distance), CLOSEST)
            origin = view.center + distance * view.pose[:, 2]
            return replace(view, pose=np.c_[view.pose[:, :3], origin])
        camera = orbit(cameras, up=up, frames=1)[0]
        pose = camera.pose.astype(np.float64)
        distance = abs(float((pose[:, 3] - center_of(cameras)) @ pose[:, 2]))
        return cls._of(camera, pose[:, 3] - max(distance, CLOSEST) * pose[:, 2], up)

    @classmethod
    def _of(cls, camera: Camera, center: Float64Array, up: npt.ArrayLike) -> Self:
        fov = vertical_fov(camera.lens)
        return cls(camera.pose.astype(np.float64), center, np.asarray(up, np.float64), fov)

    @property
    def distance(self) -> float:
        """Distance from the camera to the center in scene units, at least `CLOSEST`."""
        return max(float(np.linalg.norm(self.center - self.pose[:, 3])), CLOSEST)

    def look_at(self, point: npt.ArrayLike) -> Self:
        """Rotate the camera towards a scene position (3,), with a level horizon. The position
        becomes the center, but at a distance of at most `FARTHEST`."""
        point = checks.finite("point", point, (3,))
        back = self.pose[:, 3] - point
        distance = float(np.linalg.norm(back))
        if not distance > 1e-9:
            raise InputError(
                f"the camera is at the point {point.tolist()} and cannot look at it; choose another"
            )
        center = point if distance <= FARTHEST else self.pose[:, 3] - FARTHEST / distance * back
        pose = np.c_[self._level(back / distance), self.pose[:, 3]]
        return replace(self, pose=pose, center=center)

    def stand(self, pose: npt.ArrayLike) -> Self:
        """Return a view with the pose (3, 4) of a camera and the same distance to the center."""
        moved = replace(self, pose=checks.finite("pose", pose, (3, 4)))
        return replace(moved, center=moved.pose[:, 3] - self.distance * moved.pose[:, 2])

    def with_fov(self, fov: float) -> Self:
        """Return this view with another vertical field of view in radians, between 0 and pi."""
        return replace(self, fov=fov)

    def to_json(self) -> dict[str, Any]:
        """Return the view as JSON values for the page, with a row-major pose."""
        arrays = {"pose": self.pose.ravel(), "center": self.center, "up": self.up}
        return {**{name: array.tolist() for name, array in arrays.items()}, "fov": self.fov}

    def camera(self, width: int, height: int) -> Camera:
        """Return the undistorted camera for an image of `width` x `height` square pixels."""
        return Keyframe(self.pose, self.fov).camera(width, height)

    def _level(self, back: Float64Array) -> Float64Array:
        """Return the rotation (3, 3) of a camera without roll that has the backward axis `back`, a
        unit vector. If `back` is vertical, the camera rotates as little as possible."""
        level = back - (back @ self.up) * self.up
        if not np.linalg.norm(level) > 1e-9:
            own = self.pose[:, 2] - (self.pose[:, 2] @ self.up) * self.up
            level = max(
                own, np.cross(self.pose[:, 0], self.up), key=lambda side: float(side @ side)
            )
        right = np.cross(self.up, level / np.linalg.norm(level))
        return np.stack([right, np.cross(back, right), back], axis=1)
