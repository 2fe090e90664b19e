"""Indices and corners of occupancy grid cells, as in `kernels/occupancy.h`.

Cascade c is a cube with side length 2^c in scene units around (0.5, 0.5, 0.5). The cube is divided
into `resolution` cells along each axis. If there are several cascades, `resolution` is a multiple
of 16. Cells are grouped into bricks of 4 x 4 x 2 cells. A brick stores its occupancy bits in one
32-bit word, so a ray can cross an empty brick in one step. Within a brick, the cell index increases
along x first, then along y, and then along z. The bricks of a cascade are in the same order. Each
cascade's indices follow the indices of the previous cascade.
"""

from typing import Any, NamedTuple

import mlx.core as mx

from nerfmac.common.constants import BRICK_DEPTH, BRICK_WIDTH, SCENE_CENTER

BRICK = (BRICK_WIDTH, BRICK_WIDTH, BRICK_DEPTH)

Integers = Any
"""Integer array of MLX, NumPy, or PyTorch."""


class Cells(NamedTuple):
    """Cells of the occupancy grid: the cascade and the indices along x, y, and z of each cell, as
    arrays of equal shape."""

    cascade: Integers
    x: Integers
    y: Integers
    z: Integers


def number_of(cells: Cells, resolution: int) -> Integers:
    """Return the linear index of each cell, in the order that the module docstring describes."""
    wide, high, deep = BRICK
    cascade, x, y, z = cells
    brick = (cascade * (resolution // deep) + z // deep) * (resolution // high) + y // high
    brick = brick * (resolution // wide) + x // wide
    return ((brick * deep + z % deep) * high + y % high) * wide + x % wide


def cells_of(number: Integers, resolution: int) -> Cells:
    """Return the cells with the linear indices `number`. Inverse of `number_of`."""
    wide, high, deep = BRICK
    within, brick = number, number // (wide * high * deep)
    x = within % wide + wide * (brick % (resolution // wide))
    brick = brick // (resolution // wide)
    y = within // wide % high + high * (brick % (resolution // high))
    brick = brick // (resolution // high)
    z = within // (wide * high) % deep + deep * (brick % (resolution // deep))
    return Cells(brick // (resolution // deep), x, y, z)


def corners_of(number: mx.array, resolution: int) -> tuple[mx.array, mx.array]:
    """Return the lowest corners (cells, 3), in scene coordinates, and the side lengths (cells,), in
    scene units, of the cells with the linear indices `number` (cells,)."""
    cascade, *index = cells_of(number, resolution)
    size = mx.power(2.0, cascade)
    side = size / resolution
    offset = mx.stack(index, axis=1).astype(mx.float32) * side[:, None]
    return SCENE_CENTER - 0.5 * size[:, None] + offset, side
