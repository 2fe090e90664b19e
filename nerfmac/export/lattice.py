"""`Lattice`: evenly spaced points in a box of the scene, and the density at each of them.

Where the sampler keeps an occupancy grid the density is zero outside of its occupied cells, as it
is for the renderer: nothing that training did says what the field holds there.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import NamedTuple

import mlx.core as mx
import numpy as np
import numpy.typing as npt
from tqdm.auto import tqdm

from nerfmac.backend.memory import host_memory_bytes
from nerfmac.common import checks
from nerfmac.common.checks import InputError
from nerfmac.export.matter import Coordinates, Matter
from nerfmac.export.region import Region
from nerfmac.scenes.placement import Placement

LARGEST_RESOLUTION = 4096
BATCH = 2**18
"""Points whose density is evaluated at a time."""
SLAB = 2**18
"""Points that are placed and looked up at a time, about."""
BYTES = 6
"""Of memory a point: its float32, and what of the surface through it is found later, about."""
SHARE = 0.8
"""Of the machine's memory that may be asked for."""


class Lattice(NamedTuple):
    """Points `origin` + `spacing` (i, j, k) in the coordinates of the files, `shape` of them."""

    origin: npt.NDArray[np.float64]
    spacing: float
    shape: tuple[int, int, int]

    @classmethod
    def over(cls, region: Region, resolution: int) -> Lattice:
        """The lattice with `resolution` cells along the region's longest side, and cubic cells.

        Raises `InputError` for a resolution outside [2, 4096].
        """
        checks.number("resolution", resolution, low=2, high=LARGEST_RESOLUTION, whole=True)
        sides = region.high - region.low
        spacing = float(sides.max()) / int(resolution)
        # A side that is a whole number of cells long must not get one more from rounding.
        x, y, z = (max(ceil(side / spacing - 1e-6), 1) + 1 for side in sides)
        return cls(region.low, spacing, (x, y, z))

    def grown(self) -> Lattice:
        """The lattice with one more point on every side."""
        x, y, z = self.shape
        return Lattice(self.origin - self.spacing, self.spacing, (x + 2, y + 2, z + 2))

    def position(self, index: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
        """The positions (..., 3) of indices (..., 3), which need not be whole."""
        return self.origin + self.spacing * np.asarray(index, np.float64)

    def in_scene(self, first: int, count: int, placement: Placement) -> list[Coordinates]:
        """Where `count` planes across x, from `first` on, are in scene space: x, y and z.

        Each has three axes, and extends along those on which it depends.
        """
        x, y, z = (np.arange(each) for each in self.shape)
        numbers = x[first : first + count], y, z
        along = (self.spacing * each + self.origin[axis] for axis, each in enumerate(numbers))
        axes = np.ix_(*along)
        turn = placement.scale * placement.rotation
        return [
            sum((turn[row, axis] * axes[axis] for axis in np.flatnonzero(turn[row])), start)
            for row, start in enumerate(placement.offset[:, None, None, None])
        ]


def check_memory(lattice: Lattice) -> None:
    """Raise `InputError` if the points need more memory than this process may use."""
    available = host_memory_bytes()
    needed = BYTES * int(np.prod(lattice.shape, dtype=np.int64))
    if needed > SHARE * available:
        x, y, z = lattice.shape
        fitting = int(max(lattice.shape) * (SHARE * available / needed) ** (1 / 3)) - 2
        raise InputError(
            f"{x} x {y} x {z} points take about {needed / 1e9:.1f} GB of the machine's "
            f"{available / 1e9:.1f} GB; a resolution of {fitting} fits, or a smaller crop"
        )


def sampled(
    density: Callable[[mx.array], mx.array],
    lattice: Lattice,
    matter: Matter,
    placement: Placement,
    *,
    progress: bool = True,
) -> npt.NDArray[np.float32]:
    """The density, float32 (x, y, z) per scene unit, at all points of `lattice`.

    `density` gives (points,) at scene positions (points, 3). It is evaluated slab by slab, where
    there is `matter` alone: beside the result that takes the memory of a few planes.
    """
    values = np.zeros(lattice.shape, np.float32)
    thick = max(SLAB // values[0].size, 1)
    with tqdm(total=len(values), desc="density", unit="plane", disable=not progress) as bar:
        for first in range(0, len(values), thick):
            slab = values[first : first + thick]
            index = np.argwhere(matter.at(*lattice.in_scene(first, thick, placement)))
            for some in np.split(index, range(BATCH, len(index), BATCH)):
                position = placement.to_scene(lattice.position(some + [first, 0, 0]))
                slab[tuple(some.T)] = np.array(density(mx.array(position, mx.float32)))
            bar.update(len(slab))
    return values
