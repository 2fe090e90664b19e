"""Occupancy grids, and fields that fill them, for the tests of sampling."""

from collections.abc import Callable

import mlx.core as mx
import numpy as np

from nerfmac.config import OccupancyConfig
from nerfmac.geometry.bounds import Bounds
from nerfmac.ops.march import MarchGeometry
from nerfmac.sampling.occupancy import Occupancy, OccupancyGrid
from tests.bricks import in_bricks

CELLS = 16  # along an axis
CONFIG = OccupancyConfig(resolution=CELLS)
CUBE = MarchGeometry(Bounds(1.0), CELLS, 0.05, 3**0.5 / 256, 0.0)
SCENE = MarchGeometry(Bounds(4.0), CELLS, 0.05, 3**0.5 / 256, 1 / 64)


def grid_of(geometry: MarchGeometry = CUBE, **changes) -> tuple[OccupancyGrid, Occupancy]:
    config = OccupancyConfig(**{"resolution": CELLS, **changes})
    grid = OccupancyGrid(config, geometry)
    return grid, grid.init(mx.ones(geometry.cells, mx.bool_))


def box(low, high, density: float = 40.0) -> Callable[[mx.array], mx.array]:
    """A field that is dense inside an axis-aligned box and empty elsewhere."""
    low, high = mx.array(low), mx.array(high)
    return lambda p: density * mx.all((p > low) & (p < high), axis=1).astype(mx.float32)


def dense(position: mx.array) -> mx.array:
    """More than the threshold, and different everywhere."""
    return 40.0 + position @ mx.array([1.0, 2.0, 4.0])


def centers(geometry: MarchGeometry) -> np.ndarray:
    """(cells, 3) of all cascades, in the order of their numbers."""
    parts = []
    for cascade in range(geometry.bounds.cascades):
        side = 2.0**cascade
        line = 0.5 - side / 2 + side * (np.arange(CELLS) + 0.5) / CELLS
        z, y, x = np.meshgrid(line, line, line, indexing="ij")
        parts.append(np.stack([x, y, z], axis=-1))
    return in_bricks(np.stack(parts))


def bits_of(occupancy: Occupancy) -> np.ndarray:
    words = np.ascontiguousarray(np.array(occupancy.bits))
    return np.unpackbits(words.view(np.uint8), bitorder="little").astype(bool)


def updated(
    grid, occupancy, density, times, *, visible: np.ndarray | None = None, warmup=True, first=0
) -> Occupancy:
    """Return the grid after `times` updates; each has the `visible` cells, by default all."""
    light = mx.ones(grid.geometry.cells, mx.bool_) if visible is None else mx.array(visible)
    for i in range(first, first + times):
        occupancy = grid.update(occupancy, density, light, mx.random.key(i), warmup=warmup)
    return occupancy
