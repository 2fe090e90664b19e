"""A image's depth as the page needs it to move the image: a coarse grid of 1 / distance.

The page draws the image as a mesh over the grid's vertices, at their depth, from the camera's
present pose (`page/image/warp.js`). A vertex has the mean of 1 / distance over the four cells
around it, which is exact on a plane. Where these differ much, an outline crosses the cells: there
the vertex takes the nearest surface. So all cells that the near surface touches move with it, and
the triangles that stretch lie wholly in the colors of what is behind.

The outermost vertices lie outside the image and repeat its edge: vertex (1 + i, 1 + j) of
`columns` x `rows` is at (i / (columns - 3), j / (rows - 3)) of the image's width and height.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

CELL = 5
"""Side of a cell, in pixels of the full image."""

MOST_CELLS = 160
"""Largest number of cells along a side: it bounds the bytes and the work of a large image."""

OUTLINE = 1.1
"""Ratio of the largest to the mean 1 / distance around a vertex from which an outline is there."""

RIM = 1
"""Pixels around a near surface that move with it: they have some of its color."""

LARGEST_CODE = 2**16 - 1

Values = npt.NDArray[np.float32]


def deflated_grid(depth: Values, full_width: int, full_height: int) -> tuple[bytes, dict[str, Any]]:
    """The grid of a image that stands for one of full size, as bytes, and what tells its form.

    Args:
        depth: (h, w) distance in scene units; 0 where nothing is seen.
        full_width, full_height: size of the full image, in pixels.

    Returns:
        The codes (rows, columns) of 1 / distance, in 65535ths of `largest`, as uint16, row by row,
        little-endian, deflated; 0: far away or nothing. And `columns`, `rows` and `largest`, in
        1 / scene units.
    """
    height, width = depth.shape
    columns = min(max(full_width // CELL, 1), MOST_CELLS, width)
    rows = min(max(full_height // CELL, 1), MOST_CELLS, height)
    values = inverse_grid(depth, columns, rows)
    largest = max(float(values.max()), 1e-6)
    codes = np.round(values * (LARGEST_CODE / largest)).astype("<u2")
    shape = {"columns": codes.shape[1], "rows": codes.shape[0], "largest": largest}
    return zlib.compress(codes.tobytes(), 1), shape


def inverse_grid(depth: Values, columns: int, rows: int) -> Values:
    """(rows + 3, columns + 3) 1 / distance at the vertices of `columns` x `rows` cells.

    `depth` is (h, w) with w >= `columns` and h >= `rows`, 0 where nothing is seen.
    """
    inverse = np.where(depth > 0.0, 1.0 / np.maximum(depth, 1e-6), 0.0).astype(np.float32)
    nearest = _around(_pooled(np.maximum, _widened(inverse), columns, rows), np.maximum)
    cells = _pooled(np.add, inverse, columns, rows)
    cells /= _pooled(np.add, np.ones_like(inverse), columns, rows)
    mean = _around(cells, np.add) / 4.0
    return np.pad(np.where(nearest > OUTLINE * mean, nearest, mean), 1, mode="edge")


def _widened(values: Values) -> Values:
    """The largest of the `values` (h, w) within `RIM` pixels, to each side and above and below."""
    for axis in (0, 1):
        width = [(0, 0), (0, 0)]
        width[axis] = (RIM, RIM)
        padded, length = np.pad(values, width, mode="edge"), values.shape[axis]
        shifted = (padded.take(range(k, k + length), axis) for k in range(2 * RIM + 1))
        values = np.maximum.reduce(list(shifted))
    return values


def _pooled(combine: np.ufunc, values: Values, columns: int, rows: int) -> Values:
    """(rows, columns) `values` (h, w), combined over the pixels of each cell."""
    height, width = values.shape
    across = np.arange(columns) * width // columns
    down = np.arange(rows) * height // rows
    return combine.reduceat(combine.reduceat(values, down, axis=0), across, axis=1)


def _around(cells: Values, combine: np.ufunc) -> Values:
    """(rows + 1, columns + 1) the four `cells` (rows, columns) around each vertex, combined."""
    padded = np.pad(cells, 1, mode="edge")
    above = combine(padded[:-1], padded[1:])
    return combine(above[:, :-1], above[:, 1:])
