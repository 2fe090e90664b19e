"""Depth grids, coarse grids of inverse distances, with which the page warps an image. The page
draws the image as a mesh over the vertices of the grid, with the depth of each vertex, as seen from
the current camera pose (`page/image/warp.js`). The value of a vertex is the mean inverse distance
of the four adjacent cells. On a plane, this value is exact. If the four values differ strongly, an
outline crosses the cells, and the vertex has the depth of the nearest surface. Therefore, all cells
that the near surface touches move with it, and the stretched triangles contain only background
colors.

The outermost vertices are outside the image and repeat the values at its border. In a grid of
`columns` x `rows` vertices, vertex (1 + i, 1 + j) is located at the fractions i / (columns - 3) of
the image width and j / (rows - 3) of the image height.
"""

import zlib
from typing import Any

import numpy as np

from nerfmac.common import Float32Array

CELL = 5  # Side length of a cell in pixels of the full image.
MAX_CELLS = 160  # Maximum number of cells per row and per column.
OUTLINE = 1.1
"""An outline crosses the cells around a vertex if the ratio of their maximum to their mean inverse
distance exceeds this value."""
RIM = 1
"""Width in pixels of the border around a near surface. Border pixels mix the colors of the surface
and the background, and move with the surface."""
MAX_CODE = 2**16 - 1


def deflated_grid(
    depth: Float32Array, full_width: int, full_height: int
) -> tuple[bytes, dict[str, Any]]:
    """Encode the depth grid of an image from distances (h, w) in scene units, 0 for empty pixels,
    and the size of the full image in pixels.

    Returns codes (rows, columns) as deflated little-endian uint16 in row-major order, and a
    dictionary with `columns`, `rows`, and `largest`, the maximum inverse distance per scene unit. A
    code is the inverse distance in units of `largest` / 65535, and 0 for a far or empty vertex.
    """
    height, width = depth.shape
    columns = min(max(full_width // CELL, 1), MAX_CELLS, width)
    rows = min(max(full_height // CELL, 1), MAX_CELLS, height)
    values = inverse_grid(depth, columns, rows)
    largest = max(float(values.max()), 1e-6)
    codes = np.round(values * (MAX_CODE / largest)).astype("<u2")
    shape = {"columns": codes.shape[1], "rows": codes.shape[0], "largest": largest}
    return zlib.compress(codes.tobytes(), 1), shape


def inverse_grid(depth: Float32Array, columns: int, rows: int) -> Float32Array:
    """Return the inverse distances at the vertices of a grid of `rows` x `columns` cells over the
    image, with a border of one more vertex on each side, (rows + 3, columns + 3).

    `depth` (h, w) contains distances and is 0 for empty pixels.
    """
    inverse = np.where(depth > 0.0, 1.0 / np.maximum(depth, 1e-6), 0.0).astype(np.float32)
    nearest = _around(_pooled(np.maximum, _widened(inverse), columns, rows), np.maximum)
    cells = _pooled(np.add, inverse, columns, rows)
    cells /= _pooled(np.add, np.ones_like(inverse), columns, rows)
    mean = _around(cells, np.add) / 4.0
    return np.pad(np.where(nearest > OUTLINE * mean, nearest, mean), 1, mode="edge")


def _widened(values: Float32Array) -> Float32Array:
    """Return the maximum of `values` (h, w) within `RIM` pixels in each direction."""
    for axis in (0, 1):
        width = [(0, 0), (0, 0)]
        width[axis] = (RIM, RIM)
        padded, length = np.pad(values, width, mode="edge"), values.shape[axis]
        shifted = (padded.take(range(k, k + length), axis) for k in range(2 * RIM + 1))
        values = np.maximum.reduce(list(shifted))
    return values


def _pooled(combine: np.ufunc, values: Float32Array, columns: int, rows: int) -> Float32Array:
    """Combine the values (h, w) of the pixels of each cell to an array (rows, columns)."""
    height, width = values.shape
    across = np.arange(columns) * width // columns
    down = np.arange(rows) * height // rows
    return combine.reduceat(combine.reduceat(values, down, axis=0), across, axis=1)


def _around(cells: Float32Array, combine: np.ufunc) -> Float32Array:
    """Combine cell values (rows, columns) around each vertex (rows + 1, columns + 1)."""
    padded = np.pad(cells, 1, mode="edge")
    above = combine(padded[:-1], padded[1:])
    return combine(above[:, :-1], above[:, 1:])
