"""`View`, the camera of the viewer and the point that it orbits. The page of the viewer moves the
camera by pointer and keys (`page/motion/navigation.js`), with the same limits."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from nerfmac.app.paths.camera_path import Keyframe, vertical_fov
from nerfmac.app.paths.rig import best_framed, center_of
from nerfmac.common import Float64Array, InputError, checks
from nerfmac.geometry import Camera, Sphere, focal_length

CLOSEST = 0.1  # Minimum distance between camera and center in scene units.
FARTHEST = 1e4
"""Maximum distance of the camera from the scene center in scene units. At larger distances, float32
cannot distinguish the samples of neighboring rays."""


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
        """Create the first view of a scene: that of the photo that frames the scene best, with a
        level horizon.

        The center of the view is the center of the subject, if it is known, or else the point that
        the cameras look at. If the cameras face outward, the center is in front of the camera.
        """
        center = center_of(cameras) if subject is None else np.array(subject.center)
        camera = cameras[best_framed(cameras, up, center)]
        pose = camera.pose.astype(np.float64)
        ahead = float((pose[:, 3] - center) @ pose[:, 2])
        if ahead < CLOSEST:
            center = pose[:, 3] - max(-ahead, CLOSEST) * pose[:, 2]
        view = cls(pose, center, np.asarray(up, np.float64), vertical_fov(camera.lens))
        return view.look_at(center)

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
