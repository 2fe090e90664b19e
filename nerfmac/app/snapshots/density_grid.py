"""instant-ngp's density grid: in each cell, the optical thickness of the shortest marching step.

Cells of a cascade are in Morton order: bits of x, y and z are interleaved, x lowest. Cascades
follow each other. nerfmac's order is that of `geometry.cells`. instant-ngp loads only grids of
128^3 cells a cascade.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nerfmac.common.checks import InputError
from nerfmac.geometry.cells import cells_of

Array = npt.NDArray[np.float32]

RESOLUTION = 128
"""Cells along an axis of a cascade in a written file."""
LARGEST = float(np.finfo(np.float16).max)
"""Largest value of a cell in half precision; instant-ngp writes infinity for larger ones."""


def morton_numbers(resolution: int, cascades: int) -> npt.NDArray[np.int64]:
    """instant-ngp's number of each cell (cells,) in nerfmac's order."""
    number = np.arange(cascades * resolution**3)
    cascade, x, y, z = cells_of(number, resolution)
    return cascade * resolution**3 + (_spread(x) | _spread(y) << 1 | _spread(z) << 2)


def read_grid(data: Any, resolution: int, cascades: int, where: str) -> Array | None:
    """Values (cells,) in nerfmac's order; None for the empty grid of an untrained scene.

    `data` holds float16 or, in older files, float32 numbers. Infinity becomes the largest float16.
    Raises `InputError` for another length, NaN and -infinity.
    """
    if not isinstance(data, bytes):
        raise InputError(f"{where}: density_grid_binary is missing or no binary data")
    if not data:
        return None
    cells = cascades * resolution**3
    kinds = {2 * cells: "<f2", 4 * cells: "<f4"}
    if len(data) not in kinds:
        raise InputError(
            f"{where}: density_grid_binary has {len(data)} bytes; expected {2 * cells}, those of "
            f"{cascades} cascades of {resolution}^3 cells"
        )
    values = np.frombuffer(data, kinds[len(data)]).astype(np.float32)
    if not (values > -np.inf).all():  # False for NaN too
        raise InputError(f"{where}: density_grid_binary holds NaN or -infinity")
    values = np.minimum(values, LARGEST)
    return values[morton_numbers(resolution, cascades)]


def written_grid(values: Array, resolution: int, cascades: int) -> bytes:
    """The file's bytes, of 128^3 cells a cascade, from values (cells,) in nerfmac's order."""
    grid = np.empty((cascades, resolution, resolution, resolution), np.float32)
    grid[tuple(cells_of(np.arange(len(values)), resolution))] = np.minimum(values, LARGEST)
    for axis in (1, 2, 3):
        grid = _resampled(grid, axis)
    number = np.arange(grid.size)
    ordered = np.empty(grid.size, "<f2")
    ordered[morton_numbers(RESOLUTION, cascades)] = grid[tuple(cells_of(number, RESOLUTION))]
    return ordered.tobytes()


def _resampled(grid: Array, axis: int) -> Array:
    """`grid` with 128 cells along `axis`, each the maximum of the cells that it overlaps."""
    count = grid.shape[axis]
    cell = np.arange(RESOLUTION)
    first = cell * count // RESOLUTION
    last = -(-(cell + 1) * count // RESOLUTION) - 1
    steps = range(int((last - first).max()) + 1)
    return np.max([grid.take(np.minimum(first + step, last), axis) for step in steps], axis=0)


def _spread(number: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The lowest 10 bits of `number`, spread to every third bit."""
    result = np.zeros_like(number)
    for bit in range(10):
        result |= (number >> bit & 1) << 3 * bit
    return result
