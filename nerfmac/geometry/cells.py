"""Indices and corners of occupancy grid cells, as in `kernels/occupancy.h`.

Cascade c is a cube with the side 2^c around (0.5, 0.5, 0.5) in scene coordinates. The cube is
divided into `resolution` cells along each axis. If there are several cascades, `resolution` is a
multiple of 16. Cells are grouped into bricks of 4 x 4 x 2 cells. The occupancy bits of a brick are
one 32-bit word, so a ray crosses an empty brick in one step. Within a brick, the index of a cell
increases along x first, then along y, and then along z. The bricks within a cascade have the same
order. The indices of a cascade follow the indices of the previous cascade.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import mlx.core as mx

from nerfmac.common.constants import BRICK_DEPTH, BRICK_WIDTH, SCENE_CENTER

BRICK = (BRICK_WIDTH, BRICK_WIDTH, BRICK_DEPTH)

Integers = Any
"""Integer array of MLX, NumPy, or PyTorch."""


class Cells(NamedTuple):
    """Occupancy grid cells, described by their cascades and their indices along x, y, and z.

    All arrays have the same shape.
    """

    cascade: Integers
    x: Integers
    y: Integers
    z: Integers


def number_of(cells: Cells, resolution: int) -> Integers:
    """Return the linear index of each cell, in the order described in the module docstring."""
    wide, high, deep = BRICK
    cascade, x, y, z = cells
    brick = (cascade * (resolution // deep) + z // deep) * (resolution // high) + y // high
    brick = brick * (resolution // wide) + x // wide
    return ((brick * deep + z % deep) * high + y % high) * wide + x % wide


def cells_of(number: Integers, resolution: int) -> Cells:
    """Return the cells with the linear indices `number`. This function is the inverse of
    `number_of`."""
    wide, high, deep = BRICK
    within, brick = number, number // (wide * high * deep)
    x = within % wide + wide * (brick % (resolution // wide))
    brick = brick // (resolution // wide)
    y = within // wide % high + high * (brick % (resolution // high))
    brick = brick // (resolution // high)
    z = within // (wide * high) % deep + deep * (brick % (resolution // deep))
    return Cells(brick // (resolution // deep), x, y, z)


def corners_of(number: mx.array, resolution: int) -> tuple[mx.array, mx.array]:
    """Return the lowest corners (cells, 3) and the side lengths (cells,) of occupancy grid cells.

    `number` contains the linear indices of the cells. The corners are in scene coordinates, and the
    side lengths are in scene units.
    """
    cascade, *index = cells_of(number, resolution)
    size = mx.power(2.0, cascade)
    side = size / resolution
    offset = mx.stack(index, axis=1).astype(mx.float32) * side[:, None]
    return SCENE_CENTER - 0.5 * size[:, None] + offset, side
