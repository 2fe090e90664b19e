"""How the occupancy grid's cells are numbered; `kernels/occupancy.h` says the same.

Cascade c is a cube of side 2^c around (0.5, 0.5, 0.5), cut into `resolution` cells along each axis,
a multiple of 16 where there are several cascades. Cells go in bricks of 4 x 4 x 2, whose bits share
a word, so that a ray crosses an empty word in one stride: x fastest within a brick, then y, z; in
the same order the bricks of a cascade; then the cascades.
"""

from __future__ import annotations

from typing import Any, NamedTuple

BRICK = (4, 4, 2)

Integers = Any
"""An array of them: MLX's, or NumPy's or PyTorch's where those stand beside it."""


class Cells(NamedTuple):
    """Some cells: which cascade, and where in it along each axis; of one shape."""

    cascade: Integers
    x: Integers
    y: Integers
    z: Integers


def number_of(cells: Cells, resolution: int) -> Integers:
    """The cells' numbers."""
    wide, high, deep = BRICK
    cascade, x, y, z = cells
    brick = (cascade * (resolution // deep) + z // deep) * (resolution // high) + y // high
    brick = brick * (resolution // wide) + x // wide
    return ((brick * deep + z % deep) * high + y % high) * wide + x % wide


def cells_of(number: Integers, resolution: int) -> Cells:
    """The cells that have these numbers."""
    wide, high, deep = BRICK
    within, brick = number, number // (wide * high * deep)
    x = within % wide + wide * (brick % (resolution // wide))
    brick = brick // (resolution // wide)
    y = within // wide % high + high * (brick % (resolution // high))
    brick = brick // (resolution // high)
    z = within // (wide * high) % deep + deep * (brick % (resolution // deep))
    return Cells(brick // (resolution // deep), x, y, z)
