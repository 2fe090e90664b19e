"""`Bounds`: the space that is trained, and its map to the coordinates that encodings read.

Encodings may see far space contracted: an inner cube keeps its shape, and the rest of the scene's
cube is squeezed into a shell around it (mip-NeRF 360, Barron et al. 2022, equation 10, with
nerfstudio's largest coordinate in place of the length). Rays, cascades and exports are in scene
coordinates all the same. `kernels/bounds.h` has the map for the kernels. Another map of space
changes `to_unit`, `to_symmetric` and their scales here, `bounds_unit` and its gradient there, and
adds cases to `nerfmac/measure/selftest`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log2, sqrt
from typing import Any

import mlx.core as mx
import numpy as np
import numpy.typing as npt

CENTRE = 0.5
"""Every coordinate of the centre of the scene's cube and of all cascades, in scene units."""

_PARALLEL = 1e-9  # a smaller component of a unit direction counts as parallel to that axis' faces

Positions = Any
"""Positions (..., 3) in scene coordinates, as an array of MLX or NumPy."""


@dataclass(frozen=True)
class Bounds:
    """The scene's cube: axis-aligned, of side `extent` scene units around (0.5, 0.5, 0.5).

    With an `inner` side, in scene units, below `extent` far space is contracted for encodings: for
    x the offset from the centre over inner / 2, and |x| the largest of its coordinates,

        contracted(x) = x                            for |x| <= 1
        contracted(x) = (2 - 1 / |x|) x / |x|        beyond
    """

    extent: float
    inner: float | None = None

    @property
    def is_contracted(self) -> bool:
        """Whether encodings see far space contracted."""
        return self.inner is not None and self.inner < self.extent

    @property
    def encoded_side(self) -> float:
        """Side of the cube that encodings see, in units that are scene units in its centre."""
        if self.inner is None or not self.is_contracted:
            return self.extent
        return self.inner * (2.0 - self.inner / self.extent)

    @property
    def cascades(self) -> int:
        """Number of nested grids that cover the cube: cascade c has the side 2^c."""
        return max(0, ceil(log2(self.extent))) + 1

    @property
    def diagonal(self) -> float:
        """Length of the longest way through the cube, in scene units."""
        return sqrt(3.0) * self.extent

    @property
    def corners(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Lowest and highest corner (3,) of the axis-aligned box that exports and crops keep to."""
        half = self.extent / 2
        return np.full(3, CENTRE - half), np.full(3, CENTRE + half)

    def holds(self, position: Positions, tolerance: float = 0.0) -> Any:
        """Whether the cube, larger by the fraction `tolerance`, holds each position: (...) bool."""
        return from_centre(position) <= self.extent / 2 * (1.0 + tolerance)

    def crossing(
        self, origins: mx.array, directions: mx.array, near: float
    ) -> tuple[mx.array, mx.array]:
        """Distances (rays,) at which rays enter the cube, at least `near`, and leave it.

        `origins` (rays, 3) are scene coordinates, `directions` (rays, 3) unit vectors. The
        second is greater than the first only if the ray beyond `near` is partly inside the cube.
        """
        half, origins = self.extent / 2, origins - CENTRE
        is_parallel = mx.abs(directions) < _PARALLEL
        slope = mx.where(is_parallel, 1.0, directions)
        a, b = (-half - origins) / slope, (half - origins) / slope
        is_outside = mx.any(is_parallel & (mx.abs(origins) > half), axis=1)
        enter = mx.where(is_parallel, -1e9, mx.minimum(a, b)).max(axis=1)
        leave = mx.where(is_parallel, 1e9, mx.maximum(a, b)).min(axis=1)
        return mx.maximum(enter, near), mx.where(is_outside, -1.0, leave)

    def to_unit(self, position: mx.array) -> mx.array:
        """The coordinates in [0, 1]^3 that grids read; differentiable."""
        if self.is_contracted:
            return self._contracted(position) / self.encoded_side + CENTRE
        return position if self.extent == 1 else (position - CENTRE) / self.extent + CENTRE

    def to_symmetric(self, position: mx.array) -> mx.array:
        """The coordinates in [-1, 1]^3 that sines and cosines read; differentiable."""
        offset = self._contracted(position) if self.is_contracted else position - CENTRE
        return offset * self.symmetric_scale

    def _contracted(self, position: mx.array) -> mx.array:
        """Offsets (points, 3) from the centre, in scene units there, with far space contracted."""
        assert self.inner is not None
        offset = position - CENTRE
        x, y, z = (mx.abs(offset[:, axis]) for axis in range(3))
        farthest = mx.maximum(mx.maximum(x, y), z)[:, None]
        ratio = mx.maximum(farthest / (0.5 * self.inner), 1.0)
        return offset * ((2.0 - 1.0 / ratio) / ratio)

    @property
    def symmetric_scale(self) -> float:
        """The Jacobian of `to_symmetric` in the cube's centre: 1 / scene unit."""
        return 2.0 / self.encoded_side

    def cells_across(self, per_scene_unit: float) -> float:
        """Cells along [0, 1] of a grid with `per_scene_unit` cells a scene unit at the centre."""
        return per_scene_unit * self.encoded_side


def from_centre(position: Positions) -> Any:
    """Largest |coordinate - CENTRE| of each position, (...)."""
    return abs(position - CENTRE).max(axis=-1)
