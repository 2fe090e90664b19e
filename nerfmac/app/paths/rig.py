"""`Rig`, the point that training cameras look at and their positions around this point.

The center is the least-squares intersection of all optical axes. If the azimuths of the cameras
have a gap of more than `MAX_GAP`, the cameras show only one side, and paths stay within the arc of
the cameras. If the cameras face outward, as in a room, the center is behind them, the distance
along their axes is negative, and the cameras of the paths also face outward.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from nerfmac.app.paths.camera_path import even_size
from nerfmac.common import BoolArray, Float64Array, InputError, checks
from nerfmac.geometry import Camera, Lens, Sphere, nearest_to_axes
from nerfmac.rendering.renderer import Renderer

MAX_GAP = math.radians(100.0)  # Maximum gap between azimuths that a path may cross.
NEARBY = math.radians(25.0), math.radians(12.0), 0.2
"""Standard differences in azimuth (radians), elevation (radians), and distance (relative to the
median). At each of these differences, the weight of a training camera decreases to 0.6."""
MAX_ELEVATION = math.radians(85.0)  # At 90 degrees, the azimuth would be undefined.
PARALLEL_DISTANCE = 4.0  # Distance of parallel cameras' center, relative to their spread.
CIRCLE = 2.0 * math.pi
STEEP = math.radians(20.0)  # Difference in elevation that counts as much as an image border.
VIEWS = 12  # Maximum number of cameras for rendering images.
SIDE = 16  # Shorter side of the rendered images in pixels.
MIDDLE = 0.5  # Side of the used part in the middle of an image, relative to the image.
MIN_OPACITY = 0.5  # Minimum opacity of a pixel with a used surface point.


@dataclass(frozen=True, eq=False)
class Rig:
    """Cameras around a center. Angles are in radians, and lengths are in scene units."""

    center: Float64Array  # Position (3,) of the center, behind cameras that face outward.
    frame: Float64Array  # Rows (3, 3) of a right-handed frame. The last row is the up direction.
    distance: float  # Median distance from the center, negative for outward cameras.
    azimuth: Float64Array  # Angles (m,) around the up axis, without overhead cameras.
    elevation: Float64Array  # Elevations (n,), the angles of the cameras above the horizon.
    places: Float64Array  # Elevation and distance / `distance` (m, 2) for each azimuth.
    lens: Lens  # Intrinsics of the frames: no distortion, even width and height.

    @classmethod
    def of(
        cls,
        cameras: Sequence[Camera],
        up: npt.ArrayLike,
        size: tuple[int, int] | None = None,
        center: npt.ArrayLike | None = None,
    ) -> Rig:
        """Create the rig of cameras. The default `center` is the intersection of the camera axes,
        and the default `size` in pixels is the size of the first camera. Angles are always measured
        around the intersection. Around a closer `center`, a path would reach regions that no photo
        shows well."""
        frame = _frame(up)
        eyes, axes = _axes(cameras)
        meeting = _center(eyes, axes)
        distance = float(np.median(np.sum((meeting - eyes) * axes, axis=1)))
        outward = eyes - meeting if distance > 0.0 else -axes  # From the center, per camera.
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

    def place_at(self, azimuth: float) -> tuple[float, float]:
        """Return the elevation in radians of a path camera at an azimuth, and its distance relative
        to `distance`. Both are means over the training cameras, with larger weights for similar
        azimuths and small weights far from the median, as for a second ring or outliers."""
        middle = np.median(self.places, axis=0)
        difference = 2.0 * np.sin(0.5 * (self.azimuth - azimuth))[:, None]
        places = np.concatenate([difference, self.places - middle], axis=1)
        weights = np.exp(-0.5 * np.square(places / NEARBY).sum(axis=1))
        # If no camera is nearby, the path is at the median elevation and distance.
        elevation, distance = middle + weights @ places[:, 1:] / (weights.sum() + 1e-3)
        return float(np.clip(elevation, -MAX_ELEVATION, MAX_ELEVATION)), float(distance)

    @cached_property
    def arc(self) -> tuple[float, float]:
        """Start azimuth and angle in radians of the counter-clockwise arc that contains the
        cameras. If there are cameras on all sides, the angle is 2 pi."""
        around = np.sort(self.azimuth % CIRCLE)
        gaps = np.diff(around, append=around[0] + CIRCLE)
        widest = int(np.argmax(gaps))
        if gaps[widest] <= MAX_GAP:
            return float(around[0]), CIRCLE
        return float(around[(widest + 1) % len(around)]), float(CIRCLE - gaps[widest])

    @property
    def goes_round(self) -> bool:
        """Whether there are cameras on all sides."""
        return self.arc[1] == CIRCLE

    def heights(self, max_difference: float) -> tuple[float, float]:
        """Return the lowest and the highest elevation in radians for a path. The elevations are the
        10th and the 90th percentile over the cameras, limited so that each differs from their mean
        by at most `max_difference` radians."""
        low, high = np.clip(np.percentile(self.elevation, [10, 90]), -MAX_ELEVATION, MAX_ELEVATION)
        middle, half = 0.5 * (low + high), min(0.5 * (high - low), max_difference)
        return float(middle - half), float(middle + half)

    def camera(self, azimuth: float, elevation: float, distance: float = 1.0) -> Camera:
        """Return a camera that looks at the center, or away from it if the rig faces outward. The
        distance is relative to the distance of the rig."""
        along = math.cos(elevation) * math.cos(azimuth), math.cos(elevation) * math.sin(azimuth)
        direction = np.array([*along, math.sin(elevation)]) @ self.frame
        eye = self.center + distance * self.distance * direction
        return Camera.look_at(eye, eye - direction, self.frame[2], self.lens)


def best_framed(
    cameras: Sequence[Camera], up: npt.ArrayLike, center: npt.ArrayLike | None = None
) -> int:
    """Return the index of the camera that frames the scene best.

    Its axis passes close to the center, its horizon is level, and its elevation and its distance
    from the center are typical of the cameras. If the cameras show only one side, it is in the
    middle of them.

    Args:
        cameras: Training cameras.
        up: Up direction (3,) of the scene, of any length.
        center: Point (3,) that the cameras look at. By default, the center of their `Rig`.
    """
    rig = Rig.of(cameras, up, center=center)
    eyes, axes = _axes(cameras)
    outward = (eyes - rig.center) / rig.distance if rig.distance > 0.0 else -axes
    distance = np.linalg.norm(outward, axis=1)
    azimuth, elevation, _ = _angles(outward @ rig.frame.T)
    aside = np.arccos(np.clip(-np.sum(outward * axes, axis=1) / distance, -1.0, 1.0))
    right = np.stack([camera.pose[:, 0] for camera in cameras])
    faults = [
        aside / [math.atan(min(camera.lens.tangents)) for camera in cameras],
        np.abs(elevation - np.median(elevation)) / STEEP,
        2.0 * np.abs(np.log(distance)),
        2.0 * np.abs(right @ rig.frame[2]),
    ]
    if not rig.goes_round:
        start, arc = rig.arc
        around = (azimuth - start - 0.5 * arc + math.pi) % CIRCLE - math.pi
        faults.append(2.0 * np.abs(around) / max(arc, STEEP))
    return int(np.argmin(sum(faults)))


def center_of(cameras: Sequence[Camera]) -> Float64Array:
    """Return the point (3,) that cameras look at, the center of their `Rig`."""
    return _center(*_axes(cameras))


def look_at_point(
    renderer: Renderer, cameras: Sequence[Camera], up: npt.ArrayLike, subject: Sphere | None = None
) -> Float64Array | None:
    """Return the center (3,) of the subject or, if it is unknown, of the surfaces that cameras look
    at.

    If the cameras surround an object, the result is None, because the center of their `Rig` is in
    the object. If all cameras are on one side, their axes intersect behind the visible surfaces,
    and the front of the object would be outside some images of an orbit. The result is then the
    center of the surfaces in the middle of the images, or None without visible surfaces.
    """
    if subject is not None:
        return np.array(subject.center)
    rig = Rig.of(cameras, up)
    if rig.goes_round or rig.distance <= 0.0:
        return None
    chosen = np.unique(np.linspace(0, len(cameras) - 1, VIEWS).astype(int))
    centers = [_visible_center(renderer, cameras[index]) for index in chosen]
    points = [center for center in centers if center is not None]
    return np.mean(points, axis=0) if points else None


def _visible_center(renderer: Renderer, camera: Camera) -> Float64Array | None:
    """Return the median (3,) of the surface points in the middle of an image, or None."""
    lens = camera.lens
    scale = SIDE / min(lens.size)
    lens = lens.scaled(round(lens.width * scale), round(lens.height * scale))
    image = renderer.render(Camera(lens, camera.pose))
    row, column = np.mgrid[: lens.height, : lens.width] + 0.5
    counts = (image.opacity > MIN_OPACITY) & (abs(row / lens.height - 0.5) < 0.5 * MIDDLE)
    counts &= abs(column / lens.width - 0.5) < 0.5 * MIDDLE
    if not counts.any():
        return None
    # Distortion is ignored, because it is small in the middle of an image.
    x, y = (column - lens.cx) / lens.fl_x, (lens.cy - row) / lens.fl_y
    direction = np.stack([x, y, -np.ones_like(x)], axis=-1)[counts] @ camera.pose[:, :3].T
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    points = camera.pose[:, 3] + image.depth[counts][:, None] * direction
    return np.median(points.astype(np.float64), axis=0)


def _axes(cameras: Sequence[Camera]) -> tuple[Float64Array, Float64Array]:
    """Return positions and unit optical axes of the cameras, both (n, 3)."""
    if not cameras:
        raise InputError("a path cannot be fitted to zero cameras; pass at least one camera")
    poses = np.stack([camera.pose for camera in cameras]).astype(np.float64)
    return poses[:, :, 3], -poses[:, :, 2]


def _frame(up: npt.ArrayLike) -> Float64Array:
    """Return rows (3, 3) of a right-handed frame; the last row is the unit vector along `up`."""
    sky = np.asarray(up, np.float64)
    if sky.shape != (3,) or not np.isfinite(sky).all() or not np.linalg.norm(sky) > 0.0:
        raise InputError(f"up is {sky.tolist()}; expected three numbers that are not all zero")
    sky = sky / np.linalg.norm(sky)
    east = np.cross(np.eye(3)[np.argmin(np.abs(sky))], sky)
    east /= np.linalg.norm(east)
    return np.stack([east, np.cross(sky, east), sky])


def _center(eyes: Float64Array, axes: Float64Array) -> Float64Array:
    """Return the point (3,) closest to the lines through `eyes` along unit `axes`, both (n, 3). If
    the lines are nearly parallel, the result is a point in front of the cameras, at a distance of
    `PARALLEL_DISTANCE` times the spread of their positions."""
    if (center := nearest_to_axes(eyes, axes)) is not None:
        return center
    middle = eyes.mean(axis=0)
    spread = float(np.sqrt(np.mean(np.sum((eyes - middle) ** 2, axis=1))))
    if spread < 1e-6:
        raise InputError(
            "all cameras have the same position and direction; pass cameras around an object"
        )
    ahead = axes.mean(axis=0)
    return middle + PARALLEL_DISTANCE * spread * ahead / np.linalg.norm(ahead)


def _angles(vectors: Float64Array) -> tuple[Float64Array, Float64Array, BoolArray]:
    """Return the azimuth (n,) and elevation (n,) in radians of `vectors` (n, 3), whose last
    coordinate is up, and which vectors (n,) have a meaningful azimuth. Vectors that are nearly
    parallel to the up direction have none, unless all vectors are."""
    level = np.linalg.norm(vectors[:, :2], axis=1)
    elevation = np.arctan2(vectors[:, 2], level)
    azimuth = np.arctan2(vectors[:, 1], vectors[:, 0])
    aside = np.abs(elevation) < MAX_ELEVATION
    return azimuth, elevation, aside | ~aside.any()


def _lens(lenses: Sequence[Lens], size: tuple[int, int] | None) -> Lens:
    """Return undistorted intrinsics whose angle of view along the shorter side is the median of the
    photos.

    A wide frame therefore shows the whole height of landscape photos. If photos are in portrait and
    frames in landscape orientation, or vice versa, most of the content would be cropped. The angle
    of view then refers to the geometric mean of the two sides of a photo.
    """
    width, height = even_size(size or lenses[0].size)
    focal = float(np.median([_relative_focal(lens, width, height) for lens in lenses]))
    focal *= min(width, height)
    return Lens(width, height, focal, focal, width / 2, height / 2)


def _relative_focal(lens: Lens, width: int, height: int) -> float:
    """Return the focal length relative to the shorter side of `width` x `height` pixels."""
    is_upright, is_wide = lens.height > lens.width, lens.width > lens.height
    is_turned = (is_upright and width >= height) or (is_wide and width <= height)
    side = math.sqrt(lens.width * lens.height) if is_turned else min(lens.size)
    return math.sqrt(lens.fl_x * lens.fl_y) / side
