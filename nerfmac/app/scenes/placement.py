"""Placement of a scene: the up direction, fitting of a `Placement` to the cameras and sparse
points, and the subject.

Files with `aabb_scale`, `scale`, or `offset` are placed as in instant-ngp. For other files, such as
nerfstudio's, a placement is fitted to the cameras and sparse points. Medians are computed over
image patches instead of points because a distant wall that fills half of every image must be
included in the scene even if it has few points, unlike wrong points of structure from motion.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from math import floor, log10

import numpy as np
import numpy.typing as npt

from nerfmac.common import BoolArray, Float64Array, log
from nerfmac.geometry import Camera, Direction, Placement, Sphere, in_image, nearest_to_axes

UP = (0.0, 0.0, 1.0)  # Default up direction, as in nerfstudio and Blender.
MIN_AGREEMENT = 0.1  # Minimum length of the mean up axis of cameras with a common up direction.
UP_AXIS_WEIGHT = 0.01
"""Weight of the mean up axis in `estimated_up`, relative to the weight 1 of the right axes."""


def unit(vector: npt.ArrayLike) -> Direction:
    """Return the unit vector in the direction of `vector` (3,). The vector must not be zero."""
    x, y, z = (np.asarray(vector, np.float64) / np.linalg.norm(vector)).tolist()
    return x, y, z


def leveling(poses: Sequence[Float64Array], up: Direction | None = None) -> Float64Array:
    """Return the smallest rotation (3, 3) that maps `up` (3,) to z. By default, the up direction is
    estimated from camera-to-world `poses` (3, 4)."""
    x, y, z = up or estimated_up(np.stack(poses))
    if z < -1 + 1e-9:
        return np.diag([1.0, -1.0, -1.0])
    # Rodrigues' rotation formula, for the axis (x, y, z) x (0, 0, 1) = (y, -x, 0).
    turn = np.array([[0.0, 0.0, -x], [0.0, 0.0, -y], [x, y, 0.0]])
    return np.eye(3) + turn + turn @ turn / (1.0 + z)


def estimated_up(poses: Float64Array) -> Direction:
    """Estimate the up direction from camera-to-world `poses` (n, 3, 4) in file coordinates.

    It is perpendicular to the right axes of the cameras and has the same sign as their up axes. If
    the cameras have no common up direction, it is z. The mean up axis would be tilted if all
    cameras looked down from one side. Therefore, it has a low weight and affects the result only if
    the right axes do not determine the direction.
    """
    right, up = poses[:, :, 0], poses[:, :, 1].mean(axis=0)
    if np.linalg.norm(up) < MIN_AGREEMENT:
        return UP
    # Minimize mean((right . u)^2) + UP_AXIS_WEIGHT |u - up|^2 over u.
    spread = np.einsum("ni,nj->ij", right, right) / len(right)
    return unit(np.linalg.solve(spread + UP_AXIS_WEIGHT * np.eye(3), UP_AXIS_WEIGHT * up))


SURROUNDED_EXTENT = 4.0
"""Minimum extent, in scene units, that is fitted to a scene with a background."""
MAX_EXTENT = 16.0
"""Maximum extent, in scene units, that is fitted to points if the cameras do not face outward. In a
larger cube, the cells in the middle would be too coarse."""
OUTWARD_EXTENT = 64.0  # Maximum extent in scene units if the cameras face outward, as in a room.
ROOM_EXTENT = 32.0
"""Extent in scene units without points if the cameras face outward. Walls are about ten units
away."""
WITHIN = 0.95
"""Fraction of the visible points that the cube must contain. The others are often outliers."""
OUTWARD, PARALLEL = 0.6, 0.97
"""Minimum fraction of the cameras that must look away from the center to face outward, and maximum
length of their mean viewing axis. The axes of a survey flight are nearly parallel, and their
intersection may be behind the cameras."""


def shown_coordinates(values: npt.ArrayLike, side: float, between: str = ", ") -> str:
    """Format coordinates with three significant digits relative to the length `side`."""
    decimals = max(2 - floor(log10(max(side, 1e-12))), 0)
    return between.join(f"{value + 0.0:.{decimals}f}" for value in np.ravel(values))


def fit(
    poses: Sequence[Float64Array],
    is_object: bool,
    where: str,
    *,
    points: Float64Array | None = None,
    tangents: Sequence[tuple[float, float]] = (),
    rotation: Float64Array = Placement._field_defaults["rotation"],
    within: float = WITHIN,
) -> Placement:
    """Fit a placement, so that the cameras look at the scene center from a mean distance of one
    scene unit.

    The center is the least-squares intersection of the optical axes. If the axes are parallel, the
    center is at the median depth of the points or, without points, at the mean camera position. The
    extent is the smallest power of two for which the scene cube contains the visible points: 1 to
    16 if the images show a cut-out object, 4 to 16 if they show a scene with a background, and at
    most 64, or 32 without points, if most cameras face outward. Outliers among the points and the
    cameras are ignored. Warnings are logged for parallel axes, cameras that face outward, and
    outliers.

    Args:
        poses: Camera-to-world poses (3, 4) in file coordinates.
        is_object: Whether the images show an object that is cut out with an alpha channel.
        where: File for warnings.
        points: Sparse points (n, 3) in file coordinates; n may be 0.
        tangents: (width / (2 fl_x), height / (2 fl_y)) of the image of each camera.
        rotation: Rotation (3, 3) from the axes of the file to the axes of the scene.
        within: Fraction of the visible points that the cube must contain.
    """
    is_stray = stray_cameras(np.stack([pose[:, 3] for pose in poses]))
    if is_stray.any():
        what = f"{is_stray.sum()} of {len(poses)} cameras of {where} are far from all others"
        log.warning(f"{what} and are ignored when the scene is placed and scaled")
    poses, tangents = list(compress(poses, ~is_stray)), list(compress(tangents, ~is_stray))
    eyes, axes = np.stack([p[:, 3] for p in poses]), np.stack([p[:, 2] for p in poses])
    points = np.zeros((0, 3)) if points is None else points
    center, meet = _center(eyes, axes, points, where)
    distance = float(np.linalg.norm(eyes - center, axis=1).mean())
    scale = 1.0 / distance if distance > 1e-6 else 1.0
    min_extent, max_extent = 1.0 if is_object else SURROUNDED_EXTENT, MAX_EXTENT
    looks_away = np.einsum("ij,ij->i", eyes - center, axes) < 0
    is_spread = np.linalg.norm(axes.mean(axis=0)) < PARALLEL
    if meet and is_spread and looks_away.mean() > OUTWARD:
        min_extent = min_extent if len(points) else ROOM_EXTENT
        max_extent = OUTWARD_EXTENT
        log.warning(f"most cameras of {where} face outward; using a larger cube, as for a room")
    in_scene = scale * (points - center) @ rotation.T
    is_stray = stray_points(in_scene, min_extent, max_extent)
    points, in_scene = points[~is_stray], in_scene[~is_stray]
    reach = np.abs(in_scene).max(axis=1, initial=0.0)
    shown = patch_medians(reach, points, poses, tangents) if tangents else reach
    extent = _extent(shown if len(shown) else reach, within, min_extent, max_extent)
    return Placement(scale, 0.5 - scale * (rotation @ center), extent, rotation)


def _center(
    eyes: Float64Array, axes: Float64Array, points: Float64Array, where: str
) -> tuple[Float64Array, bool]:
    """Return the point (3,) that the cameras look at, and whether their axes intersect there."""
    if (target := nearest_to_axes(eyes, axes)) is not None:
        return target, True
    if len(points):
        depth = np.median((eyes.mean(0) - points) @ axes.mean(0))
        return eyes.mean(0) - depth * axes.mean(0), False
    found = f"all cameras of {where} look in the same direction, so the scene center is unknown"
    advice = "if the scene is not visible, add scale, offset, and aabb_scale to the file"
    log.warning(f"{found}; {advice}")
    return eyes.mean(0), False


def _extent(reach: Float64Array, within: float, min_extent: float, max_extent: float) -> float:
    """Return the smallest power of two in [`min_extent`, `max_extent`] that is at least twice the
    quantile `within` of the distances `reach` from the center, or else `max_extent`."""
    if not len(reach):
        return min_extent
    side = 2.0 * float(np.quantile(reach, within, method="inverted_cdf"))
    return float(np.clip(2.0 ** np.ceil(np.log2(max(side, 1e-6))), min_extent, max_extent))


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
MIDDLE = 0.5
"""Width and height of the central region of a photo, relative to the size of the photo."""
MIN_CAMERAS = 0.7
"""Minimum fraction of the cameras that show a point of the subject in the central region."""
MIN_SUBJECT_POINTS = 20  # Minimum number of points of a subject.
INSIDE = 0.9  # Fraction of the subject points that the sphere contains.
CENTRAL = 0.35
"""Standard deviation of the weights of patches around the middle of a photo, relative to half of
the width and height of the photo."""


def patch_medians(
    values: Float64Array,
    points: Float64Array,
    poses: Sequence[Float64Array],
    tangents: Sequence[tuple[float, float]],
) -> Float64Array:
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


def stray_cameras(eyes: Float64Array) -> BoolArray:
    """Return which camera positions (n, 3) are outliers, as a boolean array (n,)."""
    distance = np.linalg.norm(eyes - np.median(eyes, axis=0), axis=1)
    strays = distance > FAR * np.median(distance)
    is_few = np.median(distance) > 0 and strays.mean() <= MAX_STRAYS
    return strays & is_few


def stray_points(points: Float64Array, min_side: float, max_side: float) -> BoolArray:
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


def _is_surface(points: Float64Array) -> bool:
    points = points[:: -(-len(points) // MAX_COMPARED)]
    distance = np.linalg.norm(points, axis=1)
    directions = points / distance[:, None]
    cosines = directions @ directions.T
    np.fill_diagonal(cosines, -2.0)
    neighbor = distance[cosines.argmax(axis=1)]
    return bool(np.median(np.abs(np.log(distance / neighbor))) < SMOOTH)


def find_subject(points: Float64Array | None, cameras: Sequence[Camera]) -> Sphere | None:
    """Find the sphere around the object that the cameras look at, from sparse points (n, 3) in
    scene coordinates.

    The points of the object are in the middle of most photos, whereas background points move in the
    image when the camera moves around the object. The center is the mean of the patches of all
    photos that show these points. Patches in the middle of a photo have larger weights, and each
    patch counts once, because a tablecloth can have more points than the plant that stands on it.
    Occlusion and distortion are ignored. If fewer than `MIN_SUBJECT_POINTS` points are in the
    middle of most photos, as in a room, the result is None.
    """
    if points is None or not len(points) or not cameras:
        return None
    points = points[:: -(-len(points) // MAX_POINTS)]
    chosen = cameras[:: -(-len(cameras) // MAX_VIEWS)]
    positions = np.full((len(chosen), len(points), 2), np.inf)
    for position, camera in zip(positions, chosen, strict=True):
        pose = np.asarray(camera.pose, np.float64)
        projected, is_seen = in_image(points, pose, camera.lens.tangents)
        position[is_seen] = projected[is_seen]
    is_central = (np.abs(positions) < MIDDLE).all(axis=2).mean(axis=0) >= MIN_CAMERAS
    points, positions = points[is_central], positions[:, is_central]
    if len(points) < MIN_SUBJECT_POINTS:
        return None
    view, point = np.nonzero(np.isfinite(positions).all(axis=2))
    column, row = ((positions[view, point] + 1) * (PATCHES / 2)).astype(int).T
    _, patch = np.unique((view * PATCHES + row) * PATCHES + column, return_inverse=True)
    offset = np.square(positions[view, point] / CENTRAL).sum(axis=1)
    weight = np.exp(-0.5 * offset) / np.bincount(patch)[patch]
    center = weight @ points[point] / weight.sum()
    radius = np.quantile(np.linalg.norm(points - center, axis=1), INSIDE)
    x, y, z = (float(value) for value in center)
    return Sphere((x, y, z), float(radius)) if radius > 0.0 else None
