"""Fit a `Placement` to the cameras and sparse points of a scene's files.

A file with `aabb_scale`, `scale` or `offset` is placed as instant-ngp places it. Another, such as
nerfstudio's, is fitted to its cameras and sparse points.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import compress
from math import floor, log10

import numpy as np
import numpy.typing as npt

from nerfmac.app.scenes.sparse_points import patch_medians, stray_cameras, stray_points
from nerfmac.geometry.cameras import nearest_to_axes
from nerfmac.geometry.placement import Placement

Array = npt.NDArray[np.float64]

SURROUNDED_EXTENT = 4.0
"""Smallest extent of a fitted scene with a background, in scene units. One unit is the cameras'
mean distance from the center."""
WIDEST_EXTENT = 16.0
"""Largest extent fitted to points, in scene units, unless cameras look outwards: cells of a larger
cube would be too coarse in its middle."""
OUTWARD_EXTENT = 64.0
"""Largest extent for cameras that look outwards, as in a room, in scene units."""
ROOM_EXTENT = 32.0
"""Extent if cameras look outwards and there are no points: walls are about ten units away."""
WITHIN = 0.95
"""Fraction of the points seen in the images that the cube must hold; many others are wrong."""

OUTWARD = 0.6
"""Cameras look outwards if more than this fraction of them look away from the center."""

log = logging.getLogger("nerfmac")


def shown_coordinates(values: npt.ArrayLike, side: float, between: str = ", ") -> str:
    """Text for coordinates of something with the length `side`: three digits of that length."""
    decimals = max(2 - floor(log10(max(side, 1e-12))), 0)
    return between.join(f"{value + 0.0:.{decimals}f}" for value in np.ravel(values))


def fit(
    poses: Sequence[Array],
    is_object: bool,
    where: str,
    *,
    points: Array | None = None,
    tangents: Sequence[tuple[float, float]] = (),
    rotation: Array = Placement._field_defaults["rotation"],
) -> Placement:
    """Fit a placement to cameras: their target is the center, at a mean distance of one scene unit.

    The target is the point closest to the optical axes, by least squares. If these are parallel, it
    lies at the median depth of the points, or without points at the cameras' mean position, with a
    warning. The extent is the smallest power of two that holds what the images show of the
    points: from 1 for objects that alpha cuts out, else from 4, up to 16. Where most cameras look
    outwards, it is up to 64, or 32 without points, with a warning. Stray cameras and points are
    ignored, the former with a warning.

    Args:
        poses: camera-to-file poses (3, 4).
        is_object: whether alpha cuts out an object.
        where: the file that warnings name.
        points: sparse points (n, 3) in the file's coordinates; there may be none.
        tangents: (width / (2 fl_x), height / (2 fl_y)) of each camera's image.
        rotation: (3, 3), from the file's axes to the scene's.
    """
    is_stray = stray_cameras(np.stack([pose[:, 3] for pose in poses]))
    if is_stray.any():
        log.warning(
            f"{is_stray.sum()} of {len(poses)} cameras of {where} are far from all others; where "
            "the scene is and how large follows from the others alone"
        )
    poses, tangents = list(compress(poses, ~is_stray)), list(compress(tangents, ~is_stray))
    eyes, axes = np.stack([p[:, 3] for p in poses]), np.stack([p[:, 2] for p in poses])
    points = np.zeros((0, 3)) if points is None else points
    center, meet = _center(eyes, axes, points, where)
    distance = float(np.linalg.norm(eyes - center, axis=1).mean())
    scale = 1.0 / distance if distance > 1e-6 else 1.0
    least, most = 1.0 if is_object else SURROUNDED_EXTENT, WIDEST_EXTENT
    looks_away = np.einsum("ij,ij->i", eyes - center, axes) < 0
    if meet and looks_away.mean() > OUTWARD:
        least, most = least if len(points) else ROOM_EXTENT, OUTWARD_EXTENT
        log.warning(f"most cameras of {where} look outwards: the cube is larger, as for a room")
    in_scene = scale * (points - center) @ rotation.T
    is_stray = stray_points(in_scene, least, most)
    points, in_scene = points[~is_stray], in_scene[~is_stray]
    reach = np.abs(in_scene).max(axis=1, initial=0.0)
    shown = patch_medians(reach, points, poses, tangents) if tangents else reach
    extent = _extent(shown if len(shown) else reach, least, most)
    return Placement(scale, 0.5 - scale * (rotation @ center), extent, rotation)


def _center(eyes: Array, axes: Array, points: Array, where: str) -> tuple[Array, bool]:
    """The target (3,) of cameras with positions and backward axes (n, 3), and whether axes meet."""
    if (target := nearest_to_axes(eyes, axes)) is not None:
        return target, True
    if len(points):
        depth = np.median((eyes.mean(0) - points) @ axes.mean(0))
        return eyes.mean(0) - depth * axes.mean(0), False
    log.warning(
        f"the cameras of {where} look in one direction, so what they look at is unknown; put "
        "scale, offset and aabb_scale into the file if the scene is not found"
    )
    return eyes.mean(0), False


def _extent(reach: Array, least: float, most: float) -> float:
    """Side of the cube: a power of two in [`least`, `most`].

    The smallest one whose half is at least the quantile WITHIN of the distances `reach` from the
    center; `most` if all are too small.
    """
    if not len(reach):
        return least
    side = 2.0 * float(np.quantile(reach, WITHIN, method="inverted_cdf"))
    return float(np.clip(2.0 ** np.ceil(np.log2(max(side, 1e-6))), least, most))
