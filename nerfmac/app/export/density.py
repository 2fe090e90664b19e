"""`extract_density`: a field's density on a lattice of evenly spaced points.

Where the sampler keeps an occupancy grid, the density is zero outside its occupied cells, as it is
for the renderer: training never looked at the field there.
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

LARGEST_RESOLUTION = 4096
BATCH = 2**18
"""Number of points whose density is evaluated at a time."""
SLAB = 2**18
"""Approximate number of points that are looked up in the occupancy grid at a time."""
BYTES = 6
"""Approximate bytes of memory per lattice point: 4 for its density, the rest for a surface."""
SHARE = 0.8
"""Largest fraction of the available memory that an export may take."""


class Lattice(NamedTuple):
    """Points at `origin` + `spacing` (i, j, k) in the coordinates of the scene's files."""

    origin: npt.NDArray[np.float64]  # (3,)
    spacing: float
    shape: tuple[int, int, int]  # number of points along x, y and z

    @classmethod
    def over(cls, region: Region, resolution: int) -> Lattice:
        """The lattice of cubic cells, `resolution` of them along the region's longest side.

        Raises `InputError` for a resolution outside [2, 4096].
        """
        checks.number("resolution", resolution, low=2, high=LARGEST_RESOLUTION, whole=True)
        sides = region.high - region.low
        spacing = float(sides.max()) / int(resolution)
        # Rounding must not add a cell to a side that is a whole number of cells long.
        x, y, z = (max(ceil(side / spacing - 1e-6), 1) + 1 for side in sides)
        return cls(region.low, spacing, (x, y, z))

    def grown(self) -> Lattice:
        """The lattice with one more point on every side."""
        x, y, z = self.shape
        return Lattice(self.origin - self.spacing, self.spacing, (x + 2, y + 2, z + 2))

    def position(self, index: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
        """Positions (..., 3) of indices (..., 3), which may be fractions."""
        return self.origin + self.spacing * np.asarray(index, np.float64)

    def in_scene(self, first: int, count: int, placement: Placement) -> list[Coordinates]:
        """Scene coordinates x, y and z of `count` planes across the x axis, from plane `first` on.

        Each array has three axes, with length 1 along those that it does not depend on.
        """
        numbers = [np.arange(length) for length in self.shape]
        numbers[0] = numbers[0][first : first + count]
        axes = np.ix_(*(self.spacing * n + self.origin[axis] for axis, n in enumerate(numbers)))
        turn = placement.scale * placement.rotation
        return [
            sum((turn[row, axis] * axes[axis] for axis in np.flatnonzero(turn[row])), start)
            for row, start in enumerate(placement.offset[:, None, None, None])
        ]

    def check_memory(self) -> None:
        """Raise `InputError` if the points need more memory than this process may use."""
        available = host_memory_bytes()
        needed = BYTES * int(np.prod(self.shape, dtype=np.int64))
        if needed > SHARE * available:
            x, y, z = self.shape
            fitting = int(max(self.shape) * (SHARE * available / needed) ** (1 / 3)) - 2
            raise InputError(
                f"{x} x {y} x {z} points take about {needed / 1e9:.1f} GB of the machine's "
                f"{available / 1e9:.1f} GB; a resolution of {fitting} fits, or a smaller crop"
            )

    def sample(self, source: Source, *, progress: bool = True) -> npt.NDArray[np.float32]:
        """Density (x, y, z) per scene unit at all points; 0 where no cell is occupied.

        Works through slabs of planes, so that little more memory than the result's is needed.
        """
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
    """Density at `origin` + `spacing` (i, j, k), in the coordinates of the scene's files."""

    density: npt.NDArray[np.float32]  # (x, y, z), per unit of length of these coordinates
    origin: npt.NDArray[np.float64]  # (3,)
    spacing: float

    def __repr__(self) -> str:
        x, y, z = self.density.shape
        return f"DensityGrid({x} x {y} x {z})"

    def save(self, path: str | Path) -> None:
        """Write an OpenVDB volume, or an .npz of `density`, `origin` and `spacing`.

        Raises `InputError` for another ending, and for a file that cannot be written.
        """
        path = user_path(path)
        ending = path.suffix.lower()
        if ending not in (".npz", ".vdb"):
            raise InputError(f"{path} is no name for density; expected an ending of .npz or .vdb")
        with appearing(path) as partial:
            if ending == ".vdb":
                write_vdb(partial, self.density, self.origin, self.spacing)
            else:
                np.savez_compressed(partial, **vars(self))


def extract_density(
    run: Run, *, resolution: int = 256, crop: Box | None = None, progress: bool = True
) -> DensityGrid:
    """The density in a box, with `resolution` cells along its longest side.

    `crop` is as in `extract_mesh`. Density is zero where the run's occupancy grid is empty, as in
    images. Raises `InputError` for an argument out of range, and for too little memory.
    """
    source = Source.of(run)
    lattice = Lattice.over(source.region(crop), resolution)
    lattice.check_memory()
    values = lattice.sample(source, progress=progress)
    values *= source.placement.scale  # density is per length; optical thickness has no unit
    return DensityGrid(values, lattice.origin, lattice.spacing)
