"""`extract_density` evaluates the density of a field on a regular grid of points.

Outside the occupied cells, the density is set to zero, as in rendering, because the field has not
been trained there.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import NamedTuple

import mlx.core as mx
import numpy as np
import numpy.typing as npt
from tqdm.auto import tqdm

from nerfmac.app.export.source import Coordinates, Region, Source
from nerfmac.app.export.vdb import write_vdb
from nerfmac.app.run import Run
from nerfmac.backend.memory import host_memory_bytes
from nerfmac.common import checks
from nerfmac.common.checks import InputError
from nerfmac.common.files import appearing, user_path
from nerfmac.geometry.placement import Placement
from nerfmac.rendering.crop import Box

MAX_RESOLUTION = 4096
BATCH = 2**18  # Number of points for which the density is evaluated at a time.
SLAB = 2**18  # Approximate number of points for which the occupancy grid is looked up at a time.
BYTES = 6
"""Approximate memory per grid point in bytes: 4 for the density and 2 for surface extraction."""
SHARE = 0.8  # Maximum fraction of the available memory that an export may use.


class Lattice(NamedTuple):
    """Regular grid of points at `origin` + `spacing` (i, j, k), in the coordinates of the input
    scene."""

    origin: npt.NDArray[np.float64]  # (3,)
    spacing: float
    shape: tuple[int, int, int]  # Number of points along x, y, and z.

    @classmethod
    def over(cls, region: Region, resolution: int) -> Lattice:
        """Create a lattice of cubic cells over a box, with `resolution` cells along its longest
        side."""
        checks.number("resolution", resolution, low=2, high=MAX_RESOLUTION, whole=True)
        sides = region.high - region.low
        spacing = float(sides.max()) / int(resolution)
        # If the length of a side is a whole number of cells, rounding must not add a cell.
        x, y, z = (max(ceil(side / spacing - 1e-6), 1) + 1 for side in sides)
        return cls(region.low, spacing, (x, y, z))

    def grown(self) -> Lattice:
        """Return the lattice with an additional point on every side."""
        x, y, z = self.shape
        return Lattice(self.origin - self.spacing, self.spacing, (x + 2, y + 2, z + 2))

    def position(self, index: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
        """Return the positions (..., 3) of points from their indices (..., 3). Indices may be
        fractional."""
        return self.origin + self.spacing * np.asarray(index, np.float64)

    def in_scene(self, first: int, count: int, placement: Placement) -> list[Coordinates]:
        """Return the scene coordinates x, y, and z of the points in `count` planes perpendicular to
        the x axis of the lattice, from plane `first`. An axis has length 1 if a coordinate does not
        depend on it."""
        numbers = [np.arange(length) for length in self.shape]
        numbers[0] = numbers[0][first : first + count]
        axes = np.ix_(*(self.spacing * n + self.origin[axis] for axis, n in enumerate(numbers)))
        turn = placement.scale * placement.rotation
        return [
            sum((turn[row, axis] * axes[axis] for axis in np.flatnonzero(turn[row])), start)
            for row, start in enumerate(placement.offset[:, None, None, None])
        ]

    def check_memory(self) -> None:
        """Raise `InputError` if the lattice requires more than the fraction `SHARE` of the
        memory."""
        available = host_memory_bytes()
        needed = BYTES * int(np.prod(self.shape, dtype=np.int64))
        if needed > SHARE * available:
            x, y, z = self.shape
            fitting = int(max(self.shape) * (SHARE * available / needed) ** (1 / 3)) - 2
            raise InputError(
                f"{x} x {y} x {z} points need about {needed / 1e9:.1f} GB of the machine's "
                f"{available / 1e9:.1f} GB; a resolution of {fitting} fits, or use a smaller crop"
            )

    def sample(self, source: Source, *, progress: bool = True) -> npt.NDArray[np.float32]:
        """Return the density (x, y, z) per scene unit at all points, 0 outside occupied cells."""
        values = np.zeros(self.shape, np.float32)
        thick = max(SLAB // values[0].size, 1)
        with tqdm(total=len(values), desc="density", unit="plane", disable=not progress) as bar:
            for first in range(0, len(values), thick):
                slab = values[first : first + thick]
                coordinates = self.in_scene(first, thick, source.placement)
                index = np.argwhere(source.occupied.hold(*coordinates))
                for some in np.split(index, range(BATCH, len(index), BATCH)):
                    position = source.placement.to_scene(self.position(some + [first, 0, 0]))
                    density = source.density(mx.array(position, mx.float32))
                    slab[tuple(some.T)] = np.array(density)
                bar.update(len(slab))
        return values


@dataclass(frozen=True, eq=False)
class DensityGrid:
    """Density at the grid points `origin` + `spacing` (i, j, k), in the coordinates of the input
    scene."""

    density: npt.NDArray[np.float32]  # (x, y, z), per unit of length of these coordinates.
    origin: npt.NDArray[np.float64]  # (3,)
    spacing: float

    def __repr__(self) -> str:
        x, y, z = self.density.shape
        return f"DensityGrid({x} x {y} x {z})"

    def save(self, path: str | Path) -> None:
        """Write the density to a file.

        Args:
            path: File with the extension .vdb, for an OpenVDB volume, or .npz, for the NumPy arrays
                `density`, `origin`, and `spacing`.

        Raises:
            InputError: If the file has another extension or cannot be written.
        """
        path = user_path(path)
        ending = path.suffix.lower()
        if ending not in (".npz", ".vdb"):
            raise InputError(
                f"cannot write density to '{path}': the file extension must be .npz or .vdb"
            )
        with appearing(path) as partial:
            if ending == ".vdb":
                write_vdb(partial, self.density, self.origin, self.spacing)
            else:
                np.savez_compressed(partial, **vars(self))


def extract_density(
    run: Run, *, resolution: int = 256, crop: Box | None = None, progress: bool = True
) -> DensityGrid:
    """Evaluate the density of a trained field on a regular grid.

    Args:
        run: Run to export.
        resolution: Number of cells along the longest side of the box.
        crop: Lowest and highest corner of the box in the coordinates of the input scene, as in
            `extract_mesh`.
        progress: Whether to show a progress bar.

    Returns:
        Density in the coordinates of the input scene. In empty cells of the occupancy grid, the
        density is zero.

    Raises:
        InputError: If an argument is out of range or the memory is insufficient.
    """
    source = Source.of(run)
    lattice = Lattice.over(source.region(crop), resolution)
    lattice.check_memory()
    values = lattice.sample(source, progress=progress)
    values *= source.placement.scale  # Convert from density per scene unit.
    return DensityGrid(values, lattice.origin, lattice.spacing)
