"""Reading of instant-ngp's density grid. A cell contains the optical thickness of the shortest
marching step.

The cells of a cascade are in Morton order: the bits of x, y, and z are interleaved, and the lowest
bit is from x. The cells of all cascades are concatenated. In nerfmac, cells have the order that
`geometry.cells` defines.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nerfmac.common.checks import InputError
from nerfmac.geometry.cells import cells_of

Array = npt.NDArray[np.float32]

LARGEST = float(np.finfo(np.float16).max)
"""Largest finite number in half precision. For larger values, instant-ngp writes infinity."""


def morton_numbers(resolution: int, cascades: int) -> npt.NDArray[np.int64]:
    """Return the index of each cell in the order of instant-ngp, for all cells (cells,) in the
    order of nerfmac."""
    number = np.arange(cascades * resolution**3)
    cascade, x, y, z = cells_of(number, resolution)
    return cascade * resolution**3 + (_spread(x) | _spread(y) << 1 | _spread(z) << 2)


def read_grid(data: Any, resolution: int, cascades: int, where: str) -> Array | None:
    """Read the values of a density grid, in the order of nerfmac, or None for the empty grid of an
    untrained scene.

    `data` contains float16 or, in older files, float32 numbers. Infinity is replaced by the largest
    float16 number. `resolution` is the number of cells of a cascade along an axis.
    """
    if not isinstance(data, bytes):
        raise InputError(f"{where}: density_grid_binary is missing or not binary data")
    if not data:
        return None
    cells = cascades * resolution**3
    kinds = {2 * cells: "<f2", 4 * cells: "<f4"}
    if len(data) not in kinds:
        raise InputError(
            f"{where}: density_grid_binary has {len(data)} bytes; expected {2 * cells} for "
            f"{cascades} cascades of {resolution}^3 cells"
        )
    values = np.frombuffer(data, kinds[len(data)]).astype(np.float32)
    if not (values > -np.inf).all():  # also False for NaN
        raise InputError(f"{where}: density_grid_binary contains NaN or -infinity")
    values = np.minimum(values, LARGEST)
    return values[morton_numbers(resolution, cascades)]


def _spread(number: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the lowest 10 bits of `number`, moved to every third bit."""
    result = np.zeros_like(number)
    for bit in range(10):
        result |= (number >> bit & 1) << 3 * bit
    return result
