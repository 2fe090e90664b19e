"""Occupancy grids, and fields that fill them, for the tests of sampling."""

from collections.abc import Callable

import mlx.core as mx
import numpy as np

from nerfmac.config import OccupancyConfig
from nerfmac.geometry.cameras import Camera, Cameras
from nerfmac.geometry.lenses import Lens
from nerfmac.ops.march import MarchGeometry
from nerfmac.sampling.occupancy import Occupancy, OccupancyGrid
from tests.bricks import in_bricks

CELLS = 16  # along an axis
CONFIG = OccupancyConfig(resolution=CELLS)
CUBE = MarchGeometry(1.0, CELLS, 0.05, 3**0.5 / 256, 0.0)
SCENE = MarchGeometry(4.0, CELLS, 0.05, 3**0.5 / 256, 1 / 64)


def cameras_around(distance: float) -> Cameras:
    """Six views that have all of the scene in them."""
    lens = Lens.from_fov(1.6, 40, 30)
    eyes = 0.5 + distance * np.concatenate([np.eye(3), -np.eye(3)])
    return Cameras.stack([Camera.look_at(e, (0.5, 0.5, 0.5), (0.3, 1.0, 0.2), lens) for e in eyes])


def grid_of(geometry: MarchGeometry = CUBE, **changes) -> tuple[OccupancyGrid, Occupancy]:
    config = OccupancyConfig(**{"resolution": CELLS, **changes})
    grid = OccupancyGrid(config, geometry)
    return grid, grid.init(cameras_around(3.0 * geometry.extent))


def box(low, high, density: float = 40.0) -> Callable[[mx.array], mx.array]:
    """A field that is dense inside an axis-aligned box and empty elsewhere."""
    low, high = mx.array(low), mx.array(high)
    return lambda p: density * mx.all((p > low) & (p < high), axis=1).astype(mx.float32)


def centres(geometry: MarchGeometry) -> np.ndarray:
    """(cells, 3) of all cascades, in the order of their numbers."""
    parts = []
    for cascade in range(geometry.cascades):
        side = 2.0**cascade
        line = 0.5 - side / 2 + side * (np.arange(CELLS) + 0.5) / CELLS
        z, y, x = np.meshgrid(line, line, line, indexing="ij")
        parts.append(np.stack([x, y, z], axis=-1))
    return in_bricks(np.stack(parts))


def bits_of(occupancy: Occupancy) -> np.ndarray:
    words = np.ascontiguousarray(np.array(occupancy.bits))
    return np.unpackbits(words.view(np.uint8), bitorder="little").astype(bool)


def updated(grid, occupancy, density, times, *, warmup=True, first=0) -> Occupancy:
    for i in range(first, first + times):
        occupancy = grid.update(occupancy, density, mx.random.key(i), warmup=warmup)
    return occupancy
