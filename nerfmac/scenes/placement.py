"""`Placement`: file coordinates to scene space, scale * rotation @ position + offset.

A file with `aabb_scale`, `scale` or `offset` is placed as instant-ngp places it. Another, such as
nerfstudio's, is fitted to its cameras and sparse points.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import compress
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nerfmac.scenes.options import Direction
from nerfmac.scenes.sparse_points import patch_medians, stray_cameras, stray_points

Array = npt.NDArray[np.float64]

SURROUNDED_EXTENT = 4.0
"""Smallest extent of fitted scenes with a background, in units of the cameras' mean distance."""
WIDEST_EXTENT = 16.0
"""Largest extent fitted to points: cells of a larger cube would be too coarse in its middle."""
OUTWARD_EXTENT = 64.0
"""Largest extent for cameras that look outwards, as in a room, in the same units."""
ROOM_EXTENT = 32.0
"""Extent if cameras look outwards and there are no points: walls are about ten units away."""
WITHIN = 0.95
"""Fraction of the points in pictures that the cube must hold; many of the others are wrong."""

MIRROR = np.array([-1.0, 1.0, 1.0])
"""Factors of the axes of scene space that mirror it."""

OUTWARD = 0.6
"""Smallest fraction of cameras looking away from their centre for a scene to look outwards."""
PARALLEL = 1e-3
"""Smallest eigenvalue of mean(1 - d d^T) of axes d that meet; below it, they are parallel within 2
degrees."""

log = logging.getLogger("nerfmac")


class Placement(NamedTuple):
    """`scale` in scene units per file unit; `offset` (3,) and `extent` in scene units.

    `rotation` (3, 3) turns the file's axes to the scene's. With a determinant of -1 it also mirrors
    them: the file's are then left-handed.
    """

    scale: float
    offset: Array
    extent: float
    rotation: Array = np.eye(3)

    def apply(self, pose: Array) -> npt.NDArray[np.float32]:
        """Return the `pose` (3, 4) in scene space."""
        moved = self.rotation @ pose
        position = self.scale * moved[:, 3:] + self.offset[:, None]
        return np.concatenate([moved[:, :3], position], axis=1).astype(np.float32)

    def to_scene(self, position: npt.ArrayLike) -> Array:
        """Map positions (..., 3) from the file's coordinates to scene space."""
        return self.scale * np.asarray(position, np.float64) @ self.rotation.T + self.offset

    def to_file(self, position: npt.ArrayLike) -> Array:
        """Map positions (..., 3) from scene space to the file's coordinates."""
        return self.turned_to_file(np.asarray(position, np.float64) - self.offset) / self.scale

    def turned_to_scene(self, direction: Direction) -> Direction:
        """Rotate a direction from the file's axes to scene space."""
        x, y, z = (self.rotation @ direction).tolist()
        return x, y, z

    def turned_to_file(self, direction: npt.ArrayLike) -> Array:
        """Rotate directions (..., 3) from scene space to the file's axes."""
        return np.asarray(direction, np.float64) @ self.rotation

    @property
    def is_mirrored(self) -> bool:
        """Whether the file's axes are left-handed, so that its poses mirror space."""
        return bool(np.linalg.det(self.rotation) < 0)

    def mirrored(self) -> Placement:
        """Return the placement with scene space mirrored in x about the cube's centre.

        Any plane would do, as the results differ by a rotation. This one keeps y and z, either of
        which may be up.
        """
        offset = 0.5 + MIRROR * (self.offset - 0.5)
        return self._replace(offset=offset, rotation=MIRROR[:, None] * self.rotation)


def fit(
    poses: Sequence[Array],
    is_object: bool,
    where: str,
    *,
    points: Array | None = None,
    tangents: Sequence[tuple[float, float]] = (),
    rotation: Array = Placement._field_defaults["rotation"],
) -> Placement:
    """Fit a placement to cameras: their target is the centre, at a mean distance of one scene unit.

    The target is the point closest to the optical axes, by least squares. If these are parallel, it
    lies at the median depth of the points, or without points at the cameras' mean position, with a
    warning. The extent is 1 for objects that alpha cuts out, else 4; or the power of two up to 16
    that holds what the pictures show of the points. It is larger where cameras look outwards, with
    a warning. Stray cameras and points are ignored, the former with a warning.

    Args:
        poses: camera-to-file poses (3, 4).
        is_object: whether alpha cuts out an object.
        where: the file that warnings name.
        points: sparse points (n, 3) in the file's coordinates; there may be none.
        tangents: half of the pictures' width and height over their focal lengths.
        rotation: turns the scene (3, 3).
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
    centre, meet = _centre(eyes, axes, points, where)
    distance = float(np.linalg.norm(eyes - centre, axis=1).mean())
    scale = 1.0 / distance if distance > 1e-6 else 1.0
    least, most = 1.0 if is_object else SURROUNDED_EXTENT, WIDEST_EXTENT
    looks_away = np.einsum("ij,ij->i", eyes - centre, axes) < 0
    if meet and looks_away.mean() > OUTWARD:
        least, most = least if len(points) else ROOM_EXTENT, OUTWARD_EXTENT
        log.warning(f"most cameras of {where} look outwards: the cube is larger, as for a room")
    in_scene = scale * (points - centre) @ rotation.T
    is_stray = stray_points(in_scene, least, most)
    points, in_scene = points[~is_stray], in_scene[~is_stray]
    reach = np.abs(in_scene).max(axis=1, initial=0.0)
    shown = patch_medians(reach, points, poses, tangents) if tangents else reach
    extent = _extent(shown if len(shown) else reach, least, most)
    return Placement(scale, 0.5 - scale * (rotation @ centre), extent, rotation)


def _centre(eyes: Array, axes: Array, points: Array, where: str) -> tuple[Array, bool]:
    """The target (3,) of cameras with positions and backward axes (n, 3), and if the axes meet."""
    across = np.eye(3) - axes[:, :, None] * axes[:, None, :]
    if bool(np.linalg.eigvalsh(across.mean(0))[0] >= PARALLEL):
        return np.linalg.solve(across.sum(0), np.einsum("nij,nj->i", across, eyes)), True
    if len(points):
        depth = np.median((eyes.mean(0) - points) @ axes.mean(0))
        return eyes.mean(0) - depth * axes.mean(0), False
    log.warning(
        f"the cameras of {where} look in one direction, so what they look at is unknown; put "
        "scale, offset and aabb_scale into the file if the scene is not found"
    )
    return eyes.mean(0), False


def _extent(reach: Array, least: float, most: float) -> float:
    """Side of the cube, a power of two, that holds the fraction WITHIN of the distances `reach`."""
    if not len(reach):
        return least
    side = 2.0 * float(np.quantile(reach, WITHIN, method="inverted_cdf"))
    return float(np.clip(2.0 ** np.ceil(np.log2(max(side, 1e-6))), least, most))
