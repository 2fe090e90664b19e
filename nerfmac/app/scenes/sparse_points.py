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
    """Compute medians of a property of points over the patches of each image, ignoring occlusion.

    Args:
        values: Values (n,) of the points.
        points: Points (n, 3).
        poses: Camera-to-world poses (3, 4) with OpenGL axes, in the coordinates of the points.
        tangents: For each camera, half of the image width and height divided by the focal lengths.

    Returns:
        Medians (m,), one for each patch that contains points.
    """
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
    """Project points to an image without distortion, ignoring occlusion.

    Args:
        points: Points (n, 3).
        pose: Camera pose (3, 4) with OpenGL axes.
        tangents: Half of the image width and height divided by the focal lengths.

    Returns:
        Image positions (n, 2), where -1 and 1 are the image borders and y points up, and a boolean
        array (n,) that is True for points inside the image.
    """
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
    """Return a boolean array (n,) that is True for outliers among sparse points (n, 3).

    Cubes with side lengths `min_side`, 2 `min_side`, 4 `min_side`, and so on, below `max_side`, are
    tried in decreasing order. The points outside a cube are outliers if there are few of them and
    they do not form a surface. On a surface, points in similar directions have similar distances.
    For example, points scattered behind a wall are outliers, but points on the wall are not. The
    positions are relative to the scene center.
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
    """Return the distance of the near plane for training in scene units, or None if no image has
    enough points. Training ignores samples that are closer to a camera.

    Without a near plane, training may place haze directly in front of a camera, where the haze is
    not visible from other cameras. The haze affects only the image of this camera, but hides the
    scene in other renderings. The original NeRF code (Mildenhall et al. 2020) also uses a near
    plane for LLFF scenes, at 0.9 times the depth of the nearest point. Here, the factor
    `NEAR_FRACTION` is smaller than 0.9, because textureless surfaces have no points. `points` (n,
    3) are in scene space, and occlusion is ignored.
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
    scene space.

    The points of the object are in the middle of most photos, whereas background points change
    their image position when the camera moves around the object. Occlusion and lens distortion are
    ignored. If fewer than `MIN_SUBJECT_POINTS` points are in the central region of most photos, as
    in a room with outward-facing cameras, the result is None.
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
