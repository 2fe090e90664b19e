"""The density grid: optical thickness of a shortest step in each cell, in Morton order.

instant-ngp numbers a cascade's cells by interleaving the bits of their places, x lowest, then y,
then z; cascades follow each other. `geometry.cells` says how nerfmac does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nerfmac.checks import InputError
from nerfmac.geometry.cells import cells_of

Array = npt.NDArray[np.float32]


def morton_numbers(resolution: int, cascades: int) -> npt.NDArray[np.int64]:
    """(cells,) for each cell in nerfmac's order, its number in instant-ngp's."""
    number = np.arange(cascades * resolution**3)
    cascade, x, y, z = cells_of(number, resolution)
    return cascade * resolution**3 + (_spread(x) | _spread(y) << 1 | _spread(z) << 2)


def read_grid(data: Any, resolution: int, cascades: int, where: str) -> Array | None:
    """(cells,) values in nerfmac's order; None for the empty grid of an untrained scene.

    `data` are float16 or, in older files, float32 numbers. Raises `InputError` for another length.
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
    if not np.isfinite(values).all():
        raise InputError(f"{where}: density_grid_binary has numbers that are not finite")
    return values[morton_numbers(resolution, cascades)]


def written_grid(values: Array, resolution: int, cascades: int) -> bytes:
    """The values (cells,) in nerfmac's order as the file has them."""
    ordered = np.empty(len(values), "<f2")
    ordered[morton_numbers(resolution, cascades)] = np.minimum(values, 6e4)
    return ordered.tobytes()


def _spread(place: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The bits of `place`, up to 10, three apart."""
    result = np.zeros_like(place)
    for bit in range(10):
        result |= (place >> bit & 1) << 3 * bit
    return result
