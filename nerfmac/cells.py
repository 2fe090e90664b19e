"""How the occupancy grid's cells are numbered; `kernels/occupancy.h` says the same.

Cascade c is a cube of side 2^c around (0.5, 0.5, 0.5), cut into `resolution` cells along each axis,
a multiple of 16 where there are several cascades. Cells go in bricks of 4 x 4 x 2, whose bits share
a word, so that a ray crosses an empty word in one stride: x fastest within a brick, then y, z; in
the same order the bricks of a cascade; then the cascades.
"""

from __future__ import annotations

from typing import NamedTuple

import mlx.core as mx

BRICK = (4, 4, 2)


class Cells(NamedTuple):
    """Some cells: which cascade, and where in it along each axis; int32 of one shape."""

    cascade: mx.array
    x: mx.array
    y: mx.array
    z: mx.array


def number_of(cells: Cells, resolution: int) -> mx.array:
    """The cells' numbers, int32."""
    wide, high, deep = BRICK
    cascade, x, y, z = cells
    brick = (cascade * (resolution // deep) + z // deep) * (resolution // high) + y // high
    brick = brick * (resolution // wide) + x // wide
    return ((brick * deep + z % deep) * high + y % high) * wide + x % wide


def cells_of(number: mx.array, resolution: int) -> Cells:
    """The cells that have these numbers, int32."""
    wide, high, deep = BRICK
    within, brick = number, number // (wide * high * deep)
    x = within % wide + wide * (brick % (resolution // wide))
    brick = brick // (resolution // wide)
    y = within // wide % high + high * (brick % (resolution // high))
    brick = brick // (resolution // high)
    z = within // (wide * high) % deep + deep * (brick % (resolution // deep))
    return Cells(brick // (resolution // deep), x, y, z)
