"""Cells of the occupancy grid, (cascade, z, y, x), to the order of their numbers and back."""

import numpy as np

from nerfmac.geometry.cells import BRICK


def in_bricks(cells: np.ndarray) -> np.ndarray:
    """Return (cascades, z, y, x, ...) as (cells, ...) in the order of the cells' numbers."""
    cascades, side, rest = cells.shape[0], cells.shape[1], cells.shape[4:]
    cut = [size for each in reversed(BRICK) for size in (side // each, each)]
    bricks = cells.reshape(cascades, *cut, *rest)
    return np.moveaxis(bricks, (1, 3, 5), (1, 2, 3)).reshape(-1, *rest)


def out_of_bricks(values: np.ndarray, side: int) -> np.ndarray:
    """Return (cells,), in the order of their numbers, as (cascades, z, y, x)."""
    x, y, z = BRICK
    bricks = values.reshape(-1, side // z, side // y, side // x, z, y, x)
    return np.moveaxis(bricks, (1, 2, 3), (1, 3, 5)).reshape(-1, side, side, side)
