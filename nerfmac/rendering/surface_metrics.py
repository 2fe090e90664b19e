"""Metrics of surfaces: errors of depth and normals, and the ground plane of sparse points.

PSNR does not see where density is along a ray. A plain floor has the right color wherever its
density is. Therefore, depth is compared with points that structure from motion triangulated and
that training did not use. The error of a depth is relative to the true distance d of the point from
the camera:

    error = |depth - d| / d

Sparse points are on textured surfaces only. Between them, the ground plane of the points, such as a
floor or a table, shows whether plain surfaces are there. It is the level plane that most points are
on, and random sample consensus finds it (Fischler and Bolles 1981). The pixels that are compared
are those whose rays meet the plane inside the convex hull of the points on it. Objects in front of
the plane count as errors, so even a perfect field does not reach 1; compare runs of one scene only.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

TOLERANCE = 0.01
"""Greatest distance of a point on a plane from it, relative to that from the nearest camera."""
TRIALS = 512
"""Number of random planes, of which the one with the most points is used. If a quarter of the
points are on one plane, the probability to miss it is 0.03 %."""
MOST_POINTS = 4096
"""Largest number of points in the search for a plane, spread evenly over all."""
LEAST_SHARE = 0.05
"""Least fraction of the points that a ground plane has."""
LEVEL = 15.0
"""Greatest angle, in degrees, between the normal of a level plane and the up direction."""
DIRECTIONS = 64
"""Number of half planes that bound a hull."""
WITHIN = 0.98
"""Fraction of the points on the inner side of each half plane of a hull; others may be strays."""


class DepthErrors(NamedTuple):
    """Statistics of relative depth errors, as fractions."""

    median: float
    p90: float
    """90th percentile."""
    within_3_percent: float
    """Fraction of the errors of at most 3 %."""
    number: int


def depth_errors(depth: Array, distance: Array) -> DepthErrors | None:
    """Compare depths with true distances.

    Args:
        depth: (n,) rendered distances from the camera; 0 where nothing was seen.
        distance: (n,) true distances, in the same unit, greater than 0.

    Returns:
        The statistics of |depth - distance| / distance; None without values.
    """
    if not len(distance):
        return None
    error = np.abs(np.asarray(depth, np.float64) - distance) / distance
    median, p90 = np.quantile(error, (0.5, 0.9))
    return DepthErrors(float(median), float(p90), float((error <= 0.03).mean()), len(error))


def normal_angles(normal: Array, truth: Array) -> Array:
    """Return angles (n,) in degrees between normals and the true ones, both (n, 3).

    A vector of length 0 has no direction; its angle is 90 degrees.
    """
    length = np.linalg.norm(normal, axis=1) * np.linalg.norm(truth, axis=1)
    cosine = np.einsum("ij,ij->i", normal, truth) / np.maximum(length, 1e-12)
    return np.asarray(np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0))))


class Plane(NamedTuple):
    """A plane with the convex hull of the points on it; see `ground_plane`."""

    normal: Array  # (3,) unit
    offset: float  # normal @ position = offset on the plane
    axes: Array  # (2, 3) unit, along the plane
    reach: Array  # (DIRECTIONS,) greatest extent of the hull along each direction in the plane

    def distance(self, origin: Array, direction: Array) -> Array:
        """Return distances (n,) along rays to the plane; infinite if they miss its hull.

        `origin` and unit `direction` are (n, 3).
        """
        slope = direction @ self.normal
        slope = np.where(np.abs(slope) < 1e-9, 1e-9, slope)
        distance = (self.offset - origin @ self.normal) / slope
        inside = self._along(origin + distance[:, None] * direction) <= self.reach
        return np.where((distance > 0) & inside.all(axis=1), distance, np.inf)

    def _along(self, position: Array) -> Array:
        """Extent (n, DIRECTIONS) of positions (n, 3) along each direction in the plane."""
        return np.asarray(position @ self.axes.T @ _circle().T)


def ground_plane(
    points: Array, tolerance: Array, up: tuple[float, float, float], seed: int = 0
) -> Plane | None:
    """Find the level plane that most points are on.

    Args:
        points: (n, 3) positions.
        tolerance: (n,) greatest distance of each point from its plane.
        up: Unit vector in the up direction.
        seed: Seed of the random choice of planes.

    Returns:
        The plane of least squares through the points on it; None if it would have fewer than a
        twentieth of the points, or fewer than ten.
    """
    step = max(-(-len(points) // MOST_POINTS), 1)
    points, tolerance = points[::step], tolerance[::step]
    if len(points) < 10:
        return None
    chosen = np.random.default_rng(seed).integers(0, len(points), (TRIALS, 3))
    first, second, third = (points[column] for column in chosen.T)
    normals = np.cross(second - first, third - first)
    normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-12)
    misses = np.abs(points @ normals.T - np.einsum("ij,ij->i", normals, first))
    # Of three points on a line the normal is 0, so that the plane is not level.
    is_on_each = (misses <= tolerance[:, None]) & _is_level(normals, up)
    is_on = is_on_each[:, int(is_on_each.sum(axis=0).argmax())]
    for _ in range(2):  # the plane of least squares has other inliers than the random one
        if is_on.sum() < max(LEAST_SHARE * len(points), 10):
            return None
        center = points[is_on].mean(axis=0)
        axes = np.linalg.svd(points[is_on] - center, full_matrices=False)[2]
        is_on = (np.abs((points - center) @ axes[2]) <= tolerance) & _is_level(axes[2], up)
    if not is_on.any():
        return None
    plane = Plane(axes[2], float(axes[2] @ center), axes[:2], np.zeros(0))
    return plane._replace(reach=np.quantile(plane._along(points[is_on]), WITHIN, axis=0))


def _is_level(normal: Array, up: tuple[float, float, float]) -> Flags:
    """Whether planes with unit normals (..., 3) are level, (...)."""
    return np.asarray(np.abs(normal @ np.array(up)) >= np.cos(np.radians(LEVEL)))


def _circle() -> Array:
    """Unit directions (DIRECTIONS, 2) at equal angles."""
    angle = 2.0 * np.pi * np.arange(DIRECTIONS) / DIRECTIONS
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)
