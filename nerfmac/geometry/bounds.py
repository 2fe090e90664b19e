"""`Bounds`, the region that a field covers, and `Sphere`.

For the kernels, `kernels/bounds.h` contains the map from scene coordinates to encoding coordinates.
To change the map, change `to_unit`, `to_symmetric`, and `symmetric_scale` in this module, and
`bounds_unit` in `kernels/bounds.h`.
"""

from dataclasses import dataclass
from math import ceil, log2, sqrt
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np

from nerfmac.common import FAR_DISTANCE, PARALLEL_SLOPE, SCENE_CENTER, Float64Array

Positions = Any
"""Positions (..., 3) in scene coordinates, as an MLX or NumPy array."""


class Sphere(NamedTuple):
    """Sphere in scene coordinates, for example around the main object."""

    center: tuple[float, float, float]
    radius: float

    def box(self, margin: float) -> tuple[Float64Array, Float64Array]:
        """Return the lowest and highest corners, each (3,), in scene coordinates, of a cube around
        the sphere. The side length of the cube is `margin` times the sphere's diameter."""
        half = margin * self.radius
        return np.array(self.center) - half, np.array(self.center) + half


@dataclass(frozen=True)
class Bounds:
    """Scene cube: an axis-aligned cube around (0.5, 0.5, 0.5) with side length `extent` in scene
    units."""

    extent: float

    @property
    def cascades(self) -> int:
        """Number of nested occupancy grids that cover the cube. Cascade c has side length 2^c in
        scene units."""
        return max(0, ceil(log2(self.extent))) + 1

    @property
    def has_surroundings(self) -> bool:
        """Whether the scene is more than an object in the unit cube, so that cameras may be inside
        the cube."""
        return self.extent > 1

    @property
    def diagonal(self) -> float:
        """Length of the cube's space diagonal in scene units."""
        return sqrt(3.0) * self.extent

    @property
    def corners(self) -> tuple[Float64Array, Float64Array]:
        """Lowest and highest corners, each (3,), of the cube in scene coordinates. Exports and crop
        boxes end at these corners."""
        half = self.extent / 2
        return np.full(3, SCENE_CENTER - half), np.full(3, SCENE_CENTER + half)

    def holds(self, position: Positions, tolerance: float = 0.0) -> Any:
        """Return whether each position is inside the cube.

        Args:
            position: Scene coordinates (..., 3).
            tolerance: Enlargement of the cube, as a fraction of its side length.

        Returns:
            bool array (...), True for positions inside the enlarged cube.
        """
        return from_center(position) <= self.extent / 2 * (1.0 + tolerance)

    def crossing(
        self, origins: mx.array, directions: mx.array, near: float
    ) -> tuple[mx.array, mx.array]:
        """Return the entry and exit distances of rays that cross the cube.

        Args:
            origins: Ray origins (rays, 3) in scene coordinates.
            directions: Unit vectors (rays, 3).
            near: Minimum entry distance, in scene units.

        Returns:
            Two float32 arrays (rays,): the entry distance and the exit distance of each ray, in
            scene units. If a ray has no point inside the cube beyond `near`, its exit distance is
            not greater than its entry distance.
        """
        half, origins = self.extent / 2, origins - SCENE_CENTER
        is_parallel = mx.abs(directions) < PARALLEL_SLOPE
        slope = mx.where(is_parallel, 1.0, directions)
        a, b = (-half - origins) / slope, (half - origins) / slope
        is_outside = mx.any(is_parallel & (mx.abs(origins) > half), axis=1)
        enter = mx.where(is_parallel, -FAR_DISTANCE, mx.minimum(a, b)).max(axis=1)
        leave = mx.where(is_parallel, FAR_DISTANCE, mx.maximum(a, b)).min(axis=1)
        return mx.maximum(enter, near), mx.where(is_outside, -1.0, leave)

    def to_unit(self, position: mx.array) -> mx.array:
        """Convert scene coordinates to unit coordinates in [0, 1]^3, the input of grid encodings.

        Args:
            position: Scene coordinates (..., 3).

        Returns:
            Unit coordinates (..., 3), differentiable with respect to `position`.
        """
        return (
            position if self.extent == 1 else (position - SCENE_CENTER) / self.extent + SCENE_CENTER
        )

    def to_symmetric(self, position: mx.array) -> mx.array:
        """Convert scene coordinates to coordinates in [-1, 1]^3, the input of frequency encodings.

        Args:
            position: Scene coordinates (..., 3).

        Returns:
            Coordinates (..., 3) in [-1, 1], differentiable with respect to `position`.
        """
        return (position - SCENE_CENTER) * self.symmetric_scale

    @property
    def symmetric_scale(self) -> float:
        """Derivative of `to_symmetric`, in 1 / scene unit, which is the same for each axis."""
        return 2.0 / self.extent

    def cells_across(self, per_scene_unit: float) -> float:
        """Return the number of cells along each side of the cube.

        Args:
            per_scene_unit: Number of cells per scene unit.

        Returns:
            Number of cells along [0, 1] in unit coordinates.
        """
        return per_scene_unit * self.extent


def from_center(position: Positions) -> Any:
    """Return each position's distance (...) from the scene center in the maximum norm, in scene
    units."""
    return abs(position - SCENE_CENTER).max(axis=-1)
