"""`Rig`: the point that training cameras look at, and their places around it, for camera paths.

- The center is the point closest to all optical axes, by least squares.
- The elevation and the distance from the center are the cameras' medians, or those of the cameras
  nearby.
- A wide gap between the cameras' azimuths makes the rig open. Then they saw one side only, and
  paths stay in the cameras' arc.

Cameras that look outwards, as in a room, have the center behind them: the distance along their axes
is negative, and the same paths look outwards too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from nerfmac.common import checks
from nerfmac.common.checks import InputError
from nerfmac.geometry.cameras import Camera, nearest_to_axes
from nerfmac.geometry.lenses import Lens

Vectors = npt.NDArray[np.float64]

WIDEST_GAP = math.radians(100.0)
"""Widest gap between the cameras' azimuths, in radians, that a path may cross."""

NEARBY = math.radians(25.0), math.radians(12.0), 0.2
"""Differences at which a camera's influence on a path has fallen to 0.6: in azimuth and
elevation, in radians, and in distance, as a fraction of the median."""

STEEPEST = math.radians(85.0)
"""Largest elevation of a path's camera, in radians: at 90 degrees there is no azimuth."""

PARALLEL_DISTANCE = 4.0
"""Assumed distance of the center for parallel cameras, as a multiple of the cameras' spread."""

CIRCLE = 2.0 * math.pi


@dataclass(frozen=True, eq=False)
class Rig:
    """Cameras around a center. Angles are in radians, lengths in scene units."""

    center: Vectors
    """Position (3,); behind the cameras if they look outwards."""
    frame: Vectors
    """Rows (3, 3) of a right-handed frame; the last one is up."""
    distance: float
    """Median distance from the center to the cameras; negative if they look outwards."""
    azimuth: Vectors
    """Angles (m,) around the up axis; cameras overhead have none and are left out."""
    elevation: Vectors
    """Angles (n,) above the horizon."""
    places: Vectors
    """Elevation, and distance as a multiple of `distance`, (m, 2) of the cameras in `azimuth`."""
    lens: Lens
    """Lens of the path's frames: no distortion; width and height are even."""

    @classmethod
    def of(
        cls,
        cameras: Sequence[Camera],
        up: npt.ArrayLike,
        size: tuple[int, int] | None = None,
        center: npt.ArrayLike | None = None,
    ) -> Rig:
        """Return the rig of `cameras`; arguments and errors are those of `orbit`.

        The angles are always measured around the point where the cameras' axes meet. Around a given
        `center` nearer to the cameras they would be wider, and the path's ends would show parts
        that hardly any photo shows.
        """
        frame = _frame(up)
        eyes, axes = _axes(cameras)
        meeting = _center(eyes, axes)
        distance = float(np.median(np.sum((meeting - eyes) * axes, axis=1)))
        outward = eyes - meeting if distance > 0.0 else -axes  # from the center, per camera
        azimuth, elevation, is_aside = _angles(outward @ frame.T)
        center = meeting if center is None else checks.finite("center", center, (3,))
        relative = np.ones(len(eyes))
        if distance > 0.0:
            distances = np.linalg.norm(eyes - center, axis=1)
            distance = float(np.median(distances))
            relative = distances / distance
        places = np.stack([elevation, relative], axis=1)[is_aside]
        lens = _lens([camera.lens for camera in cameras], size)
        return cls(center, frame, distance, azimuth[is_aside], elevation, places, lens)

    @property
    def level(self) -> float:
        """The cameras' median elevation."""
        return float(np.clip(np.median(self.elevation), -STEEPEST, STEEPEST))

    def place_at(self, azimuth: float) -> tuple[float, float]:
        """Elevation and relative distance of the cameras around `azimuth`: where a path is safe.

        They are means over the cameras, weighted by how near their azimuths are, so they change
        smoothly around the circle. Cameras far from the median elevation and distance, such as a
        second ring or stray ones, have little weight.
        """
        middle = np.median(self.places, axis=0)
        apart = 2.0 * np.sin(0.5 * (self.azimuth - azimuth))[:, None]
        places = np.concatenate([apart, self.places - middle], axis=1)
        weights = np.exp(-0.5 * np.square(places / NEARBY).sum(axis=1))
        # Where no camera is nearby, the path is at the median.
        elevation, distance = middle + weights @ places[:, 1:] / (weights.sum() + 1e-3)
        return float(np.clip(elevation, -STEEPEST, STEEPEST)), float(distance)

    @cached_property
    def arc(self) -> tuple[float, float]:
        """(start, angle) of the cameras' arc, counter-clockwise; angle 2 pi: a circle."""
        around = np.sort(self.azimuth % CIRCLE)
        gaps = np.diff(around, append=around[0] + CIRCLE)
        widest = int(np.argmax(gaps))
        if gaps[widest] <= WIDEST_GAP:
            return float(around[0]), CIRCLE
        return float(around[(widest + 1) % len(around)]), float(CIRCLE - gaps[widest])

    @property
    def goes_round(self) -> bool:
        """Whether there are cameras on all sides."""
        return self.arc[1] == CIRCLE

    def heights(self, most: float) -> tuple[float, float]:
        """Return a lowest and a highest elevation: the cameras' 10th and 90th percentile.

        Each is at most `most` radians from their middle.
        """
        low, high = np.clip(np.percentile(self.elevation, [10, 90]), -STEEPEST, STEEPEST)
        middle, half = 0.5 * (low + high), min(0.5 * (high - low), most)
        return float(middle - half), float(middle + half)

    def camera(self, azimuth: float, elevation: float, distance: float = 1.0) -> Camera:
        """Return a camera that looks at the center, or away from it if the rig's cameras do.

        `distance` is a multiple of the rig's.
        """
        along = math.cos(elevation) * math.cos(azimuth), math.cos(elevation) * math.sin(azimuth)
        direction = np.array([*along, math.sin(elevation)]) @ self.frame
        eye = self.center + distance * self.distance * direction
        return Camera.look_at(eye, eye - direction, self.frame[2], self.lens)


def center_of(cameras: Sequence[Camera]) -> Vectors:
    """Return the center (3,) of the cameras' `Rig`; raises InputError as `orbit` does."""
    return _center(*_axes(cameras))


def _axes(cameras: Sequence[Camera]) -> tuple[Vectors, Vectors]:
    """Positions and unit optical axes of the cameras, both (n, 3)."""
    if not cameras:
        raise InputError("no cameras to fit a path to; expected at least one")
    poses = np.stack([camera.pose for camera in cameras]).astype(np.float64)
    return poses[:, :, 3], -poses[:, :, 2]


def _frame(up: npt.ArrayLike) -> Vectors:
    """Rows (3, 3) of a right-handed frame; the last is the unit vector along `up`."""
    sky = np.asarray(up, np.float64)
    if sky.shape != (3,) or not np.isfinite(sky).all() or not np.linalg.norm(sky) > 0.0:
        raise InputError(f"up is {sky.tolist()}; expected three numbers that are not all zero")
    sky = sky / np.linalg.norm(sky)
    east = np.cross(np.eye(3)[np.argmin(np.abs(sky))], sky)
    east /= np.linalg.norm(east)
    return np.stack([east, np.cross(sky, east), sky])


def _center(eyes: Vectors, axes: Vectors) -> Vectors:
    """The point (3,) closest to the lines through `eyes` along unit `axes`, both (n, 3).

    For nearly parallel lines it is a point ahead, PARALLEL_DISTANCE times the eyes' spread away.
    Raises InputError if the eyes are also at one place.
    """
    if (center := nearest_to_axes(eyes, axes)) is not None:
        return center
    middle = eyes.mean(axis=0)
    spread = float(np.sqrt(np.mean(np.sum((eyes - middle) ** 2, axis=1))))
    if spread < 1e-6:
        raise InputError(
            "all cameras stand at one place and look one way; expected cameras around something"
        )
    ahead = axes.mean(axis=0)
    return middle + PARALLEL_DISTANCE * spread * ahead / np.linalg.norm(ahead)


def _angles(vectors: Vectors) -> tuple[Vectors, Vectors, npt.NDArray[np.bool_]]:
    """Azimuth and elevation (n,) in radians of `vectors` (n, 3), up axis last.

    The third array (n,) says which of them have an azimuth: those that are not along the up axis,
    or all if none is.
    """
    level = np.linalg.norm(vectors[:, :2], axis=1)
    elevation = np.arctan2(vectors[:, 2], level)
    azimuth = np.arctan2(vectors[:, 1], vectors[:, 0])
    aside = np.abs(elevation) < STEEPEST
    return azimuth, elevation, aside | ~aside.any()


def _lens(lenses: Sequence[Lens], size: tuple[int, int] | None) -> Lens:
    """A lens without distortion, with the photos' median angle of view at its shorter side.

    The photos' angle is that of their shorter side, so a wide frame cuts nothing off above
    and below. A wide frame of upright photos, or the reverse, would cut most of them off:
    there the angle is that of a side with the geometric mean of their two lengths.
    """
    width, height = size if size is not None else (lenses[0].width, lenses[0].height)
    checks.number("width", width, low=2, whole=True)
    checks.number("height", height, low=2, whole=True)
    width, height = width // 2 * 2, height // 2 * 2
    focal = float(np.median([_relative_focal(lens, width, height) for lens in lenses]))
    focal *= min(width, height)
    return Lens(width, height, focal, focal, width / 2, height / 2)


def _relative_focal(lens: Lens, width: int, height: int) -> float:
    """Focal length for frames of `width` x `height`, as a multiple of their shorter side."""
    is_upright, is_wide = lens.height > lens.width, lens.width > lens.height
    is_turned = (is_upright and width >= height) or (is_wide and width <= height)
    side = math.sqrt(lens.width * lens.height) if is_turned else min(lens.width, lens.height)
    return math.sqrt(lens.fl_x * lens.fl_y) / side
