"""`Placement`, the transform from file coordinates to scene coordinates.

A position in a file is mapped to scale * rotation @ position + offset.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Direction = tuple[float, float, float]

MIRROR = np.array([-1.0, 1.0, 1.0])
"""Factors of the coordinates x, y, and z that mirror scene space in x."""


class Placement(NamedTuple):
    """Transform from file coordinates to scene space, with the extent of the scene cube.

    `scale` is in scene units per file unit. `offset` (3,) and `extent` are in scene units.
    `rotation` (3, 3) maps the axes of the file to the axes of the scene. If the axes of the file
    are left-handed, its determinant is -1.
    """

    scale: float
    offset: Array
    extent: float
    rotation: Array = np.eye(3)

    def apply(self, pose: Array) -> npt.NDArray[np.float32]:
        """Return the camera-to-scene pose of the camera-to-file `pose`, both (3, 4)."""
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

    def box_to_file(self, low: npt.ArrayLike, high: npt.ArrayLike) -> tuple[Array, Array]:
        """Convert an axis-aligned box from scene coordinates to file coordinates.

        Args:
            low: Lowest corner (3,) of the box in scene coordinates.
            high: Highest corner (3,) of the box in scene coordinates.

        Returns:
            Lowest and highest corner (3,) of the smallest axis-aligned box in file coordinates that
            contains the box. If the placement rotates the axes, the result is larger than the box.
        """
        corners = self.to_file(list(product(*zip(np.array(low), np.array(high), strict=True))))
        return corners.min(axis=0), corners.max(axis=0)

    @property
    def is_mirrored(self) -> bool:
        """Whether the axes of the file are left-handed, so that the transform mirrors space."""
        return bool(np.linalg.det(self.rotation) < 0)

    def mirrored(self) -> Placement:
        """Return the placement with scene space mirrored in x about the center of the cube.

        The results of different mirror planes differ only by a rotation. Mirroring in x preserves y
        and z, one of which is usually the up direction.
        """
        offset = 0.5 + MIRROR * (self.offset - 0.5)
        return self._replace(offset=offset, rotation=MIRROR[:, None] * self.rotation)
