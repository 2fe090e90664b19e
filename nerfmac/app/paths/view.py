"""`View`, the camera of the viewer, and its moves by pointer and keys. The scene follows the
pointer. Pointer motion is relative to the image height, with x right and y down. The first rotation
makes the horizon level. All limits are chosen so that the view can still be rendered and moved back
after any move."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from nerfmac.app.paths.keyframe import Keyframe, vertical_fov
from nerfmac.app.paths.moves import orbit
from nerfmac.app.paths.rig import center_of
from nerfmac.common import InputError, checks
from nerfmac.geometry import Camera, Sphere, focal_length

Vector = npt.NDArray[np.float64]

STEEPEST = math.radians(89.0)  # Maximum elevation of an orbiting view, in radians.
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

    pose: npt.NDArray[np.float64]
    center: Vector
    up: Vector
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
            nearer = min(max(filling / view.distance, NEAREST), 1.0)
            return view.dolly(math.log(nearer))
        camera = orbit(cameras, up=up, frames=1)[0]
        pose = camera.pose.astype(np.float64)
        distance = abs(float((pose[:, 3] - center_of(cameras)) @ pose[:, 2]))
        return cls._of(camera, pose[:, 3] - max(distance, CLOSEST) * pose[:, 2], up)

    @classmethod
    def _of(cls, camera: Camera, center: Vector, up: npt.ArrayLike) -> Self:
        fov = vertical_fov(camera.lens)
        return cls(camera.pose.astype(np.float64), center, np.asarray(up, np.float64), fov)

    @property
    def distance(self) -> float:
        """Distance from the camera to the center in scene units, at least `CLOSEST`."""
        return max(float(np.linalg.norm(self.center - self.pose[:, 3])), CLOSEST)

    def orbit(self, right: float, down: float) -> Self:
        """Rotate around the center, by pi radians per image height of pointer motion. After the
        rotation, the horizon is level, and the elevation is at most `STEEPEST`."""
        right, down = _number("right", right), _number("down", down)
        heading, elevation = self._direction(self.pose[:, 2], math.cos(STEEPEST))
        angle = -math.pi * right
        heading = math.cos(angle) * heading + math.sin(angle) * np.cross(self.up, heading)
        elevation += math.pi * min(max(down, -1.0), 1.0)
        rotation = self._level(heading, min(max(elevation, -STEEPEST), STEEPEST))
        # The center stays at the same pixel.
        origin = self.center + rotation @ (self.pose[:, :3].T @ (self.pose[:, 3] - self.center))
        return replace(self, pose=np.c_[rotation, origin])

    def pan(self, right: float, down: float) -> Self:
        """Move parallel to the image, so that points at the center distance follow the pointer."""
        height = 2.0 * self.distance * math.tan(0.5 * self.fov)
        right, down = _number("right", right), _number("down", down)
        return self._moved(-right * height, down * height, 0.0)

    def dolly(self, log_factor: float) -> Self:
        """Multiply the distance to the center by exp(`log_factor`). At the distance `CLOSEST`, the
        camera continues to move, and the center moves with it."""
        log_factor = _number("log_factor", log_factor)
        wanted = self.distance * math.exp(min(log_factor, math.log(FARTHEST / self.distance)))
        moved = self._moved(0.0, 0.0, self.distance - wanted)
        return moved._centered(CLOSEST) if wanted < CLOSEST else replace(moved, center=self.center)

    def walk(self, right: float, up: float, forward: float, speed: float) -> Self:
        """Move along the camera axes for times in seconds, at a speed in scene units per second."""
        speed = _number("speed", speed)
        seconds = {"right": right, "up": up, "forward": forward}
        return self._moved(*(_number(name, value) * speed for name, value in seconds.items()))

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
        rotation = self._level(*self._direction(back, 1e-9))
        return replace(self, pose=np.c_[rotation, self.pose[:, 3]], center=center)

    def stand(self, pose: npt.ArrayLike) -> Self:
        """Return a view with the pose (3, 4) of a camera and the same distance to the center."""
        moved = replace(self, pose=checks.finite("pose", pose, (3, 4)))
        return moved._centered(self.distance)

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

    def _centered(self, distance: float) -> Self:
        return replace(self, center=self.pose[:, 3] - distance * self.pose[:, 2])

    def _moved(self, right: float, up: float, forward: float) -> Self:
        """Move camera and center along the camera axes in scene units, within `FARTHEST`."""
        limit = max(FARTHEST, float(np.linalg.norm(self.pose[:, 3])))
        along = np.clip(np.array([right, up, -forward]), -2.0 * limit, 2.0 * limit)
        origin = self.pose[:, 3] + self.pose[:, :3] @ along
        origin *= min(1.0, limit / max(float(np.linalg.norm(origin)), CLOSEST))
        center = self.center + origin - self.pose[:, 3]
        return replace(self, pose=np.c_[self.pose[:, :3], origin], center=center)

    def _direction(self, back: Vector, min_slope: float) -> tuple[Vector, float]:
        """Return the horizontal unit vector and the elevation in radians of a vector from the scene
        to the camera. If `back` is nearly vertical (`min_slope`), the horizontal vector follows
        from the camera axes, so that the camera rotates as little as possible."""
        height = float(back @ self.up)
        level = back - height * self.up
        length = float(np.linalg.norm(level))
        if length > min_slope * abs(height):
            return level / length, math.atan2(height, length)
        level = self.pose[:, 2] - (self.pose[:, 2] @ self.up) * self.up
        aside = np.cross(self.pose[:, 0], self.up)
        level = max(level, aside, key=lambda side: float(side @ side))
        return level / np.linalg.norm(level), math.copysign(0.5 * math.pi, height)

    def _level(self, heading: Vector, elevation: float) -> npt.NDArray[np.float64]:
        """Return the rotation (3, 3) of a camera without roll, from the horizontal direction
        `heading` and the `elevation` in radians of its backward axis."""
        back = math.cos(elevation) * heading + math.sin(elevation) * self.up
        right = np.cross(self.up, heading)
        return np.stack([right, np.cross(back, right), back], axis=1)


def _number(name: str, value: float) -> float:
    checks.number(name, value)
    return float(value)
