"""Where a file's coordinates lie in scene space: scene = scale * rotation @ position + offset.

A file with `aabb_scale`, `scale` or `offset` is placed as instant-ngp places it. A file with none
of these, such as nerfstudio's, is fitted to its cameras and to the points that it knows.
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

SURROUNDED_EXTENT = 4.0
"""Least extent of fitted scenes without alpha, with room for the background: cameras are 1 away."""
WIDEST_EXTENT = 16.0
"""Largest extent that points may ask for: cells of a larger cube would be too coarse for the rest.
"""
OUTWARD_EXTENT = 64.0
"""The same for cameras that look outwards, as in a room: they are 1 away from their middle."""
ROOM_EXTENT = 32.0
"""Extent for such cameras where no points are known: walls are about ten times as far away."""
WITHIN = 0.95
"""Of what pictures show, this part shall be within the cube; of other points many are wrong."""

MIRROR = np.array([-1.0, 1.0, 1.0])
"""What the axes of scene space are multiplied with to mirror it."""

OUTWARD = 0.6
"""More than this part of the cameras has to look away from their middle to look outwards."""
PARALLEL = 1e-3
"""Axes d count as parallel, within 2 degrees, if mean(1 - d d^T) has an eigenvalue below this."""

log = logging.getLogger("nerfmac")


class Placement(NamedTuple):
    """`scale` in scene units per file unit; `offset` (3,) and `extent` in scene units.

    `rotation` (3, 3) turns the file's axes to the scene's, and mirrors them if its determinant is
    -1: the file's are then left-handed.
    """

    scale: float
    offset: npt.NDArray[np.float64]
    extent: float
    rotation: npt.NDArray[np.float64] = np.eye(3)

    def apply(self, pose: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
        """The pose (3, 4) moved into scene space."""
        moved = self.rotation @ pose
        position = self.scale * moved[:, 3:] + self.offset[:, None]
        return np.concatenate([moved[:, :3], position], axis=1).astype(np.float32)

    def to_file(self, position: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Where scene positions (..., 3) are in the file's coordinates."""
        return self.turned_to_file(np.asarray(position, np.float64) - self.offset) / self.scale

    def turned_to_scene(self, direction: Direction) -> Direction:
        """A direction of the file's axes in scene space."""
        x, y, z = (self.rotation @ direction).tolist()
        return x, y, z

    def turned_to_file(self, direction: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Directions of scene space (..., 3) in the file's axes."""
        return np.asarray(direction, np.float64) @ self.rotation

    def to_scene(self, position: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Where the file's positions (..., 3) are in scene space."""
        return self.scale * np.asarray(position, np.float64) @ self.rotation.T + self.offset

    @property
    def is_mirrored(self) -> bool:
        """Whether the file's axes are left-handed, so that its poses mirror space."""
        return bool(np.linalg.det(self.rotation) < 0)

    def mirrored(self) -> Placement:
        """The placement with x of scene space mirrored about the middle of the cube.

        Any plane would do, for the results differ by a rotation; this one keeps y and z, either of
        which may be up.
        """
        offset = 0.5 + MIRROR * (self.offset - 0.5)
        return self._replace(offset=offset, rotation=MIRROR[:, None] * self.rotation)


def fit(
    poses: Sequence[npt.NDArray[np.float64]],
    is_object: bool,
    where: str,
    *,
    points: npt.NDArray[np.float64] | None = None,
    tangents: Sequence[tuple[float, float]] = (),
    rotation: npt.NDArray[np.float64] = Placement._field_defaults["rotation"],
) -> Placement:
    """The placement with the cameras' target in the middle, at a mean distance of one scene unit.

    The target is the point with the least sum of squared distances from the optical axes. If these
    do not meet, it is where the cameras' median view of the `points` ends, or without points the
    cameras' mean position, with a warning. `points` (n, 3) are places of what the pictures show, in
    the file's coordinates, and `tangents` the pictures', as in `patch_medians`; there may be none.

    The extent is 1 for objects that alpha cuts out, else 4; or as large, by a power of two and up
    to 16, as holds what the pictures show of the points. It is larger where cameras look outwards,
    with a warning. Stray cameras, with a warning, and stray points do not count. The scene is
    turned by `rotation`.
    """
    is_stray = stray_cameras(np.stack([pose[:, 3] for pose in poses]))
    if is_stray.any():
        log.warning(
            "%d of %d cameras of %s are far from all others; where the scene is and how large "
            "follows from the others alone",
            *(is_stray.sum(), len(poses), where),
        )
    poses = list(compress(poses, ~is_stray))
    tangents = list(compress(tangents, ~is_stray))
    eyes = np.stack([pose[:, 3] for pose in poses])
    axes = np.stack([pose[:, 2] for pose in poses])
    points = np.zeros((0, 3)) if points is None else points
    across = np.eye(3) - axes[:, :, None] * axes[:, None, :]
    meet = bool(np.linalg.eigvalsh(across.mean(0))[0] >= PARALLEL)
    if meet:
        centre = np.linalg.solve(across.sum(0), np.einsum("nij,nj->i", across, eyes))
    elif len(points):
        depth = np.median((eyes.mean(0) - points) @ axes.mean(0))
        centre = eyes.mean(0) - depth * axes.mean(0)
    else:
        log.warning(
            "the cameras of %s look in one direction, so what they look at is unknown; put scale, "
            "offset and aabb_scale into the file if the scene is not found",
            where,
        )
        centre = eyes.mean(0)
    distance = float(np.linalg.norm(eyes - centre, axis=1).mean())
    scale = 1.0 / distance if distance > 1e-6 else 1.0
    least, most = 1.0 if is_object else SURROUNDED_EXTENT, WIDEST_EXTENT
    looks_away = np.einsum("ij,ij->i", eyes - centre, axes) < 0
    if meet and looks_away.mean() > OUTWARD:
        most = OUTWARD_EXTENT
        least = least if len(points) else ROOM_EXTENT
        log.warning("most cameras of %s look outwards: the cube is larger, as for a room", where)
    in_scene = scale * (points - centre) @ rotation.T
    is_stray = stray_points(in_scene, least, most)
    points, in_scene = points[~is_stray], in_scene[~is_stray]
    away = np.abs(in_scene).max(axis=1, initial=0.0)
    shown = patch_medians(away, points, poses, tangents) if tangents else away
    extent = _extent(shown if len(shown) else away, least, most)
    return Placement(scale, 0.5 - scale * (rotation @ centre), extent, rotation)


def _extent(away: npt.NDArray[np.float64], least: float, most: float) -> float:
    """The side, a power of two, of the cube that holds most of what is so far `away` (n,)."""
    if not len(away):
        return least
    side = 2.0 * float(np.quantile(away, WITHIN, method="inverted_cdf"))
    return float(np.clip(2.0 ** np.ceil(np.log2(max(side, 1e-6))), least, most))
