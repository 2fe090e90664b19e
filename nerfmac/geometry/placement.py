"""`Placement`, the transform from a file's coordinates to scene coordinates.

The transform maps a position in the file to scale * rotation @ position + offset.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nerfmac.common import Float32Array, Float64Array

Direction = tuple[float, float, float]

MIRROR = np.array([-1.0, 1.0, 1.0])
"""Factors of x, y, and z that mirror scene space in x."""


class Placement(NamedTuple):
    """Transform from file coordinates to scene coordinates, and the extent of the scene cube.

    `scale` is in scene units per file unit. `offset` (3,) and `extent` are in scene units.
    `rotation` (3, 3) maps the file's axes to the scene's axes. If the file's axes are left-handed,
    the determinant of `rotation` is -1.
    """

    scale: float
    offset: Float64Array
    extent: float
    rotation: Float64Array = np.eye(3)

    def apply(self, pose: Float64Array) -> Float32Array:
        """Convert a camera-to-file `pose` (3, 4) to a camera-to-scene pose (3, 4)."""
        moved = self.rotation @ pose
        position = self.scale * moved[:, 3:] + self.offset[:, None]
        return np.concatenate([moved[:, :3], position], axis=1).astype(np.float32)

    def to_scene(self, position: npt.ArrayLike) -> Float64Array:
        """Convert positions (..., 3) from file coordinates to scene coordinates."""
        return self.scale * np.asarray(position, np.float64) @ self.rotation.T + self.offset

    def to_file(self, position: npt.ArrayLike) -> Float64Array:
        """Convert positions (..., 3) from scene coordinates to file coordinates."""
        return self.turned_to_file(np.asarray(position, np.float64) - self.offset) / self.scale

    def turned_to_scene(self, direction: Direction) -> Direction:
        """Rotate a direction from the file's axes to the scene's axes."""
        x, y, z = (self.rotation @ direction).tolist()
        return x, y, z

    def turned_to_file(self, direction: npt.ArrayLike) -> Float64Array:
        """Rotate directions (..., 3) from the scene's axes to the file's axes."""
        return np.asarray(direction, np.float64) @ self.rotation

    def box_to_file(
        self, low: npt.ArrayLike, high: npt.ArrayLike
    ) -> tuple[Float64Array, Float64Array]:
        """Return the lowest and highest corners, each (3,), of the smallest axis-aligned box in
        file coordinates that contains a box in scene coordinates. If the placement rotates the
        axes, the result may be larger than the given box."""
        corners = self.to_file(list(product(*zip(np.array(low), np.array(high), strict=True))))
        return corners.min(axis=0), corners.max(axis=0)

    @property
    def is_mirrored(self) -> bool:
        """Whether the file's axes are left-handed, so that the transform mirrors space."""
        return bool(np.linalg.det(self.rotation) < 0)

    def mirrored(self) -> Placement:
        """Return a copy of the placement that also mirrors the x axis of scene space at the center
        of the scene cube.

        The choice of the mirror plane changes the result only by a rotation. Mirroring the x axis
        preserves the y axis and the z axis, one of which is usually the up direction.
        """
        offset = 0.5 + MIRROR * (self.offset - 0.5)
        return self._replace(offset=offset, rotation=MIRROR[:, None] * self.rotation)
