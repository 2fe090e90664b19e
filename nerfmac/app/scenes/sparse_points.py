"""Sparse points: medians over patches of images, strays among the points, and the near plane.

Structure from motion puts a few points and cameras where nothing is. These strays must not decide
how large a scene is. Nor may a few points on a far wall, which may fill half of every image: so
points count by patches of the images.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from nerfmac.geometry.cameras import Camera

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

PATCHES = 8
"""Number of patches along each side of a image."""
MOST_VIEWS, MOST_POINTS = 64, 20000
"""Largest numbers of views and points that `patch_medians` uses, spread evenly over all."""

MOST_STRAYS = 0.15
"""Largest fraction of all cameras or points that may be strays."""
FAR = 4.0
"""A camera is a stray if its distance from the median position exceeds this multiple of the
median distance."""
SMOOTH = 0.1
"""Median |log(r / r')| above which distances r, r' of points in similar directions are unrelated.
Measured on surfaces: 0.003 to 0.035 (garden, table top, painted wall); on points strewn in space:
0.2 to 1."""
FEWEST_OF_SURFACE = 5
"""Smallest number of points among which a surface can be recognized."""
MOST_COMPARED = 1000
"""Largest number of points that are compared with each other, spread evenly over all."""

NEAR_FRACTION = 0.75
"""Near plane as a fraction of the nearest points' distance."""
OUTLIERS = 0.01
"""Fraction of a image's points, the nearest ones, that are ignored because they may be wrong."""
FEWEST_IN_IMAGE = 50
"""Smallest number of points in a image that counts for the near plane."""
MOST_NEAR = 2**15
"""Largest number of points that count for the near plane, spread evenly over all."""


def patch_medians(
    values: Array, points: Array, poses: Sequence[Array], tangents: Sequence[tuple[float, float]]
) -> Array:
    """Return medians (m,) of the points' `values` (n,) over each patch of each image.

    `points` are (n, 3); patches without points are left out. `poses` (3, 4) are camera-to-file with
    OpenGL's axes. `tangents` are half of a image's width and height over its focal lengths.
    Occlusion is ignored.
    """
    step = max(-(-len(points) // MOST_POINTS), 1)
    values, points = values[::step], points[::step]
    medians: list[float] = []
    for index in range(0, len(poses), -(-len(poses) // MOST_VIEWS)):
        position, is_seen = in_image(points, poses[index], tangents[index])
        column, row = ((position[is_seen] + 1) * (PATCHES / 2)).astype(int).T
        patches, seen = PATCHES * row + column, values[is_seen]
        medians += [float(np.median(seen[patches == patch])) for patch in np.unique(patches)]
    return np.array(medians)


def in_image(points: Array, pose: Array, tangents: tuple[float, float]) -> tuple[Array, Flags]:
    """Project `points` (n, 3): positions (n, 2) in a image without distortion, bool (n,) if seen.

    Positions in the image are from -1 to 1 along both axes, y upwards. `pose` (3, 4) and
    `tangents` are as in `patch_medians`. Occlusion is ignored.
    """
    x, y, z = ((points - pose[:, 3]) @ pose[:, :3]).T
    depth = np.maximum(-z, 1e-12)
    position = np.stack([x, y], axis=1) / (depth[:, None] * tangents)
    return position, (z < 0) & (np.abs(position) < 1).all(axis=1)


def stray_cameras(eyes: Array) -> Flags:
    """Return which of the camera positions (n, 3) are strays, bool (n,)."""
    distance = np.linalg.norm(eyes - np.median(eyes, axis=0), axis=1)
    strays = distance > FAR * np.median(distance)
    is_few = np.median(distance) > 0 and strays.mean() <= MOST_STRAYS
    return strays & is_few


def stray_points(points: Array, least: float, most: float) -> Flags:
    """Return which of the points (n, 3), relative to the scene's center, are strays, bool (n,).

    Cubes of side `least`, 2 `least`, 4 `least` ... below `most` are tried, the largest first. The
    points outside a cube are strays if they are few and no surface: on a surface, points in
    similar directions have similar distances. So points strewn behind a wall go; the wall stays.
    """
    strays = np.zeros(len(points), np.bool_)
    distance = np.abs(points).max(axis=1, initial=0.0)
    doublings = max(int(np.ceil(np.log2(most / least))), 0)
    for side in reversed([least * 2.0**doubling for doubling in range(doublings)]):
        outside = distance > side / 2
        remaining = outside & ~strays
        if outside.sum() > MOST_STRAYS * len(points):
            break
        if remaining.sum() >= FEWEST_OF_SURFACE:
            if _is_surface(points[remaining]):
                break
            strays = outside
    return strays


def near_plane(points: Array, cameras: Sequence[Camera]) -> float:
    """Return the distance from every camera up to which space counts as empty, in scene units.

    In front of a camera, where no other one looks, training may put a fog that colors its image
    alone and hides the scene from everywhere else. So nothing is put there, as NeRF's program does
    with LLFF's near bound (Mildenhall et al. 2020: nine tenths of the nearest point's depth). Here
    the fraction is smaller, as plain surfaces have no points.

    `points` (n, 3) are in scene space; occlusion is ignored. 0 if no image has enough points.
    """
    points = points[:: max(-(-len(points) // MOST_NEAR), 1)]
    nearest = []
    for camera in cameras:
        pose = np.asarray(camera.pose, np.float64)
        _, is_seen = in_image(points, pose, camera.lens.tangents)
        if is_seen.sum() >= FEWEST_IN_IMAGE:
            distance = np.linalg.norm(points[is_seen] - pose[:, 3], axis=1)
            nearest.append(float(np.quantile(distance, OUTLIERS)))
    return NEAR_FRACTION * min(nearest, default=0.0)


def _is_surface(points: Array) -> bool:
    points = points[:: -(-len(points) // MOST_COMPARED)]
    distance = np.linalg.norm(points, axis=1)
    directions = points / distance[:, None]
    cosines = directions @ directions.T
    np.fill_diagonal(cosines, -2.0)
    neighbor = distance[cosines.argmax(axis=1)]
    return bool(np.median(np.abs(np.log(distance / neighbor))) < SMOOTH)
