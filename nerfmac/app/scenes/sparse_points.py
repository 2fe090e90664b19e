"""Computations with sparse points: medians over image patches, outliers, the near plane, and the
subject. Medians are computed over patches instead of points because a distant wall that fills half
of every image must be included in the scene even if it has few points, unlike wrong points of
structure from motion."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from nerfmac.geometry.bounds import Sphere
from nerfmac.geometry.cameras import Camera

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

PATCHES = 8  # Number of patches along each side of an image.
MAX_VIEWS, MAX_POINTS = 64, 20000
"""Maximum numbers of evenly spaced views and points that `patch_medians` uses."""
MAX_STRAYS = 0.15  # At most this fraction of the cameras or points can be outliers.
FAR = 4.0
"""Minimum distance of an outlier from the median camera position, relative to the median
distance."""
SMOOTH = 0.1
"""Maximum median of |log(r / r')| for points on a surface, where r and r' are the distances of two
points in similar directions. Measured: 0.003 to 0.035 on surfaces, 0.2 to 1 in space."""
MIN_SURFACE_POINTS = 5  # A surface is recognized only if it has at least this number of points.
MAX_COMPARED = 1000  # Maximum number of points that are compared with each other, evenly spaced.
NEAR_FRACTION = 0.75  # Distance of the near plane, relative to the distance of the nearest points.
OUTLIERS = 0.01  # Fraction of the nearest points in an image that are ignored as possible outliers.
MIN_POINTS_IN_IMAGE = 50  # Images with fewer points are not used to determine the near plane.
MAX_NEAR_POINTS = 2**15  # Maximum number of points that determine the near plane, evenly spaced.
MIDDLE = 0.5
"""Width and height of the central region of a photo, relative to the size of the photo."""
MIN_CAMERAS = 0.7
"""Minimum fraction of the cameras that show a point of the subject in the central region."""
MIN_SUBJECT_POINTS = 20  # Minimum number of points of a subject.
INSIDE = 0.9  # Fraction of the subject points that the sphere contains.


def patch_medians(
    values: Array, points: Array, poses: Sequence[Array], tangents: Sequence[tuple[float, float]]
) -> Array:
    """Return the medians of `values` (n,) of points (n, 3) over the patches of each image that
    contain points, ignoring occlusion. `poses` are camera-to-world poses (3, 4) with OpenGL axes.
    `tangents` are half of the image width and height divided by the focal lengths, for each
    camera."""
    step = max(-(-len(points) // MAX_POINTS), 1)
    values, points = values[::step], points[::step]
    medians: list[float] = []
    for index in range(0, len(poses), -(-len(poses) // MAX_VIEWS)):
        position, is_seen = in_image(points, poses[index], tangents[index])
        column, row = ((position[is_seen] + 1) * (PATCHES / 2)).astype(int).T
        patches, seen = PATCHES * row + column, values[is_seen]
        medians += [float(np.median(seen[patches == patch])) for patch in np.unique(patches)]
    return np.array(medians)


def in_image(points: Array, pose: Array, tangents: tuple[float, float]) -> tuple[Array, Flags]:
    """Return the image positions (n, 2) of points (n, 3), where -1 and 1 are the image borders and
    y points up, and whether each point (n,) is inside the image, ignoring distortion and occlusion.
    The pose and the tangents are those of a camera in `patch_medians`."""
    x, y, z = ((points - pose[:, 3]) @ pose[:, :3]).T
    depth = np.maximum(-z, 1e-12)
    position = np.stack([x, y], axis=1) / (depth[:, None] * tangents)
    return position, (z < 0) & (np.abs(position) < 1).all(axis=1)


def stray_cameras(eyes: Array) -> Flags:
    """Return which camera positions (n, 3) are outliers, as a boolean array (n,)."""
    distance = np.linalg.norm(eyes - np.median(eyes, axis=0), axis=1)
    strays = distance > FAR * np.median(distance)
    is_few = np.median(distance) > 0 and strays.mean() <= MAX_STRAYS
    return strays & is_few


def stray_points(points: Array, min_side: float, max_side: float) -> Flags:
    """Return a boolean array (n,) that is True for outliers among points (n, 3) around the scene
    center.

    Cubes with side lengths `min_side`, 2 `min_side`, 4 `min_side`, and so on, below `max_side`, are
    tried in decreasing order. The points outside a cube are outliers if there are few of them and
    they do not form a surface, where points in similar directions have similar distances. Points
    scattered behind a wall are outliers, for example, but points on the wall are not.
    """
    strays = np.zeros(len(points), np.bool_)
    distance = np.abs(points).max(axis=1, initial=0.0)
    doublings = max(int(np.ceil(np.log2(max_side / min_side))), 0)
    for side in reversed([min_side * 2.0**doubling for doubling in range(doublings)]):
        outside = distance > side / 2
        remaining = outside & ~strays
        if outside.sum() > MAX_STRAYS * len(points):
            break
        if remaining.sum() >= MIN_SURFACE_POINTS:
            if _is_surface(points[remaining]):
                break
            strays = outside
    return strays


def near_plane(points: Array, cameras: Sequence[Camera]) -> float | None:
    """Return the distance of the near plane, in scene units, that training uses, or None if no
    image shows enough points. Samples that are closer to a camera are ignored.

    Without a near plane, training may place haze directly in front of a camera, where no other
    camera sees it. The haze affects only the image of this camera, but hides the scene in other
    renderings. The original NeRF code (Mildenhall et al. 2020) uses a near plane for LLFF scenes,
    at 0.9 times the depth of the nearest point. `NEAR_FRACTION` is smaller, because textureless
    surfaces have no points. `points` (n, 3) are in scene coordinates, and occlusion is ignored.
    """
    points = points[:: max(-(-len(points) // MAX_NEAR_POINTS), 1)]
    nearest = []
    for camera in cameras:
        pose = np.asarray(camera.pose, np.float64)
        _, is_seen = in_image(points, pose, camera.lens.tangents)
        if is_seen.sum() >= MIN_POINTS_IN_IMAGE:
            distance = np.linalg.norm(points[is_seen] - pose[:, 3], axis=1)
            nearest.append(float(np.quantile(distance, OUTLIERS)))
    return NEAR_FRACTION * min(nearest) if nearest else None


def _is_surface(points: Array) -> bool:
    points = points[:: -(-len(points) // MAX_COMPARED)]
    distance = np.linalg.norm(points, axis=1)
    directions = points / distance[:, None]
    cosines = directions @ directions.T
    np.fill_diagonal(cosines, -2.0)
    neighbor = distance[cosines.argmax(axis=1)]
    return bool(np.median(np.abs(np.log(distance / neighbor))) < SMOOTH)


def find_subject(
    points: npt.NDArray[np.float64] | None, cameras: Sequence[Camera]
) -> Sphere | None:
    """Find the sphere around the object that the cameras look at, from sparse points (n, 3) in
    scene coordinates.

    The points of the object are in the middle of most photos, whereas background points move in the
    image when the camera moves around the object. Occlusion and distortion are ignored. If fewer
    than `MIN_SUBJECT_POINTS` points are in the middle of most photos, as in a room, the result is
    None.
    """
    if points is None or not len(points) or not cameras:
        return None
    points = points[:: -(-len(points) // MAX_POINTS)]
    chosen = cameras[:: -(-len(cameras) // MAX_VIEWS)]
    shown = np.zeros(len(points))
    for camera in chosen:
        pose = np.asarray(camera.pose, np.float64)
        position, is_seen = in_image(points, pose, camera.lens.tangents)
        shown += is_seen & (np.abs(position) < MIDDLE).all(axis=1)
    points = points[shown >= MIN_CAMERAS * len(chosen)]
    if len(points) < MIN_SUBJECT_POINTS:
        return None
    center = np.median(points, axis=0)
    radius = np.quantile(np.linalg.norm(points - center, axis=1), INSIDE)
    x, y, z = (float(value) for value in center)
    return Sphere((x, y, z), float(radius)) if radius > 0.0 else None
