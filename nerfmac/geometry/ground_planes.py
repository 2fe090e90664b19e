"""Estimation of the ground plane, such as a floor, from sparse points: the horizontal plane with
the most points, found by RANSAC (Fischler and Bolles 1981) and limited by their convex hull. Photos
do not determine the depth of a textureless floor, but points at its seams and stains determine its
plane."""

from typing import NamedTuple

import mlx.core as mx
import numpy as np

from nerfmac.common import FAR_DISTANCE, PARALLEL_SLOPE, BoolArray, Float64Array
from nerfmac.geometry.bounds import Bounds
from nerfmac.geometry.rays import Rays

TOLERANCE = 0.01
"""Maximum distance of an inlier from the plane, relative to its distance from the nearest
camera."""
TRIALS = 2**14
"""Number of random planes. If a tenth of the points are on one plane, sixteen of the random planes
are on average through three of these points."""
MAX_PLANES = 1024
"""Maximum number of level random planes that are compared with all points."""
MAX_POINTS = 4096
"""Maximum number of points that the search for a plane uses. If there are more points, an evenly
spaced subset is used."""
MIN_SHARE, MIN_INLIERS = 0.05, 50
"""Minimum number of inliers of a ground plane, as a fraction of all points and as a number. The 40
points that an LLFF scene with 20 images has, at the ends of its depth ranges, are not a floor."""
LEVEL = 15.0
"""Maximum angle, in degrees, between the normal of a ground plane and the up direction."""
DIRECTIONS = 64
"""Number of half planes that approximate the convex hull of the points by their intersection."""
WITHIN = 0.98
"""Fraction of the points inside each half plane of the convex hull. The other points may be
outliers."""


class GroundPlane(NamedTuple):
    """Ground plane and the convex hull of the points on the plane, in scene coordinates."""

    normal: Float64Array  # (3,) unit vector
    offset: float  # normal @ position = offset on the plane
    axes: Float64Array  # (2, 3) unit vectors along the plane
    reach: Float64Array  # (DIRECTIONS,) extent of the hull along each direction in the plane

    def distance(self, rays: Rays) -> mx.array:
        """Return the distance (rays,) along each ray from its origin to the ground plane, in scene
        units, or `FAR_DISTANCE` if the ray does not intersect the plane inside the convex hull."""
        origin, direction = rays.origin, rays.direction
        slope = _along(direction, self.normal)
        slope = mx.where(mx.abs(slope) < PARALLEL_SLOPE, PARALLEL_SLOPE, slope)
        distance = (self.offset - _along(origin, self.normal)) / slope
        position = origin + distance[:, None] * direction
        first, second = (_along(position, axis)[:, None] for axis in self.axes)
        across, along = (mx.array(column, mx.float32) for column in _circle().T)
        reach = mx.array(self.reach, mx.float32)
        is_inside = (first * across + second * along <= reach).all(axis=1)
        return mx.where((distance > 0.0) & is_inside, distance, FAR_DISTANCE)


def ground_plane(
    points: Float64Array, tolerance: Float64Array, up: tuple[float, float, float], seed: int = 0
) -> GroundPlane | None:
    """Return the ground plane of `points`, or None if fewer than 50 points or less than 5 % of the
    points are inliers.

    The horizontal plane with the most inliers is chosen and fitted to its inliers with least
    squares. `points` (n, 3) are in scene coordinates, `tolerance` (n,) contains the maximum
    distance of each inlier from the plane in scene units, and `up` is a unit vector. `seed`
    determines the random planes that are tried.
    """
    step = max(-(-len(points) // MAX_POINTS), 1)
    points, tolerance = points[::step], tolerance[::step]
    fewest = max(MIN_SHARE * len(points), MIN_INLIERS)
    if len(points) < fewest:
        return None
    chosen = np.random.default_rng(seed).integers(0, len(points), (TRIALS, 3))
    first, second, third = (points[column] for column in chosen.T)
    normals = np.cross(second - first, third - first)
    normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-12)
    # Three points on a line yield the normal 0, so they do not count as a level plane.
    level = np.flatnonzero(_is_level(normals, up))[:MAX_PLANES]
    if not len(level):
        return None
    offsets = np.einsum("ij,ij->i", normals[level], first[level])
    is_on_each = np.abs(points @ normals[level].T - offsets) <= tolerance[:, None]
    is_on = is_on_each[:, int(is_on_each.sum(axis=0).argmax())]
    for _ in range(2):  # its inliers differ from the random plane's inliers
        if is_on.sum() < fewest:
            return None
        center = points[is_on].mean(axis=0)
        axes = np.linalg.svd(points[is_on] - center, full_matrices=False)[2]
        is_on = (np.abs((points - center) @ axes[2]) <= tolerance) & _is_level(axes[2], up)
    if not is_on.any():
        return None
    extent = points[is_on] @ axes[:2].T @ _circle().T
    reach = np.quantile(extent, WITHIN, axis=0)
    return GroundPlane(axes[2], float(axes[2] @ center), axes[:2], reach)


def scene_ground_plane(
    points: Float64Array, bounds: Bounds, eyes: Float64Array, up: tuple[float, float, float]
) -> GroundPlane | None:
    """Return the ground plane of the sparse points (n, 3) in a scene cube, or None if too few
    points are on a horizontal plane.

    The tolerance of a point is proportional to its distance from the nearest camera. `eyes` (m, 3)
    contains the camera positions. All positions are in scene coordinates, and `up` is a unit
    vector.
    """
    points = points[np.asarray(bounds.holds(points))]
    return ground_plane(points, TOLERANCE * nearest_distance(points, eyes), up)


def nearest_distance(points: Float64Array, eyes: Float64Array) -> Float64Array:
    """Return the distance (n,) from each point (n, 3) to the nearest camera position in `eyes` (m,
    3)."""
    distance = np.full(len(points), np.inf)
    for eye in eyes:
        distance = np.minimum(distance, np.linalg.norm(points - eye, axis=1))
    return distance


def _along(vectors: mx.array, axis: Float64Array) -> mx.array:
    """Return the inner products (n,) of vectors (n, 3) with an axis."""
    # The inner product is computed as a sum of products, because a GPU may compute a matmul in TF32
    # with only ten mantissa bits.
    return (vectors * mx.array(axis, mx.float32)).sum(axis=1)


def _is_level(normal: Float64Array, up: tuple[float, float, float]) -> BoolArray:
    """Return whether planes with the given unit normals (..., 3) are horizontal, bool (...)."""
    return np.asarray(np.abs(normal @ np.array(up)) >= np.cos(np.radians(LEVEL)))


def _circle() -> Float64Array:
    """Return unit directions (DIRECTIONS, 2) at equal angular intervals."""
    angle = 2.0 * np.pi * np.arange(DIRECTIONS) / DIRECTIONS
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)
