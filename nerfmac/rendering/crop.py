"""A box that cuts a scene down to what is inside it, in whole cells of the occupancy grid.

Nothing is seen where the grid is empty. So cells that do not overlap the box are emptied, which
hides them in all kinds of pictures at no cost. What stays visible ends at faces of cells, at most
one cell outside the box.
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil, floor

import mlx.core as mx

from nerfmac.geometry.cells import cells_of
from nerfmac.ops.march import MarchGeometry
from nerfmac.ops.occupancy_update import pack_bits

Corner = tuple[float, float, float]
Box = tuple[Corner, Corner]
"""Lowest and highest corner, in scene units."""


def cropped(bits: mx.array, geometry: MarchGeometry, box: Box | None) -> mx.array:
    """The occupancy `bits`, as `ops.march` takes them, of the cells that overlap `box` alone."""
    if box is None:
        return bits
    low, high = box
    return bits & _overlapping(geometry, tuple(low), tuple(high))  # lists have no hash


@lru_cache(maxsize=4)
def _overlapping(geometry: MarchGeometry, low: Corner, high: Corner) -> mx.array:
    """(cells / 32,) uint32, one bit a cell: whether it overlaps the box; touching is not enough."""
    cascade, *place = cells_of(mx.arange(geometry.cells, dtype=mx.int32), geometry.resolution)
    values = mx.ones(geometry.cells)
    for axis, ends in enumerate(zip(low, high, strict=True)):
        lines = [_between(geometry, each, *ends) for each in range(geometry.cascades)]
        values = values * mx.stack(lines)[cascade, place[axis]]
    bits = pack_bits(values, mx.array([0.5]))
    mx.eval(bits)
    return bits


def _between(geometry: MarchGeometry, cascade: int, low: float, high: float) -> mx.array:
    """(resolution,) float32, 1 for a cascade's cells along an axis between the two positions."""
    size, cells = 2.0**cascade, geometry.resolution
    begin, end = (((place - 0.5) / size + 0.5) * cells for place in (low, high))
    index = mx.arange(cells)
    # Limited to the grid first: a box may reach far beyond it.
    first, last = floor(max(begin, -1.0)), ceil(min(end, cells + 1.0))
    return ((index >= first) & (index < last)).astype(mx.float32)
