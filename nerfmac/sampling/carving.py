"""Carving: cells that tracks of sparse points show to be empty.

A camera that sees a sparse point sees it through empty space. So cells on the ways from cameras to
their points are empty, if several ways cross them and no sparse point is near. Space carving from
tracks is that of surface reconstruction (Labatut et al. 2007), here without a surface.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from nerfmac.geometry.bounds import from_centre
from nerfmac.geometry.rays import Rays
from nerfmac.ops.march import MarchGeometry, cell_of
from nerfmac.ops.visibility import visible_cells
from nerfmac.scenes.tracks import Tracks, ways_of

FREE_FRACTION = 0.9
"""Fraction of the way from a camera to a point that counts as empty."""
FEWEST_WAYS = 3
"""Fewest groups of ways that cross an empty cell."""
GROUPS = 16
"""Groups that the ways are dealt into in turn. Counting groups that cross a cell, not single ways,
takes so many launches of a kernel that says only whether any ray crosses a cell."""
MOST_WAYS = 2**16
"""Most ways that are followed; they are spread evenly over all."""


def carved_cells(
    tracks: Tracks, eyes: npt.NDArray[np.float32], geometry: MarchGeometry
) -> mx.array:
    """(cells,) bool: the cells that are empty by the `tracks`.

    `eyes` (views, 3) are the cameras' positions and `geometry` is the grid's; near planes do not
    matter.
    """
    geometry, crossed = replace(geometry, near=0.0), mx.zeros(geometry.cells, mx.int32)
    directions, distances = ways_of(tracks, eyes)
    origins = np.asarray(eyes)[tracks.view]
    ways = np.arange(0, len(distances), -(-len(distances) // MOST_WAYS))
    for group in (ways[first::GROUPS] for first in range(min(GROUPS, len(ways)))):
        rays = Rays(*(mx.array(v[group].astype(np.float32)) for v in (origins, directions)))
        until = mx.array((FREE_FRACTION * distances[group]).astype(np.float32))
        middle = mx.full(until.shape, 0.5)
        crossed = crossed + visible_cells(rays, middle, until, geometry).astype(mx.int32)
        mx.eval(crossed)
    return (crossed >= FEWEST_WAYS) & ~_near_points(tracks.points, geometry)


def _near_points(points: npt.NDArray[np.float64], geometry: MarchGeometry) -> mx.array:
    """(cells,) bool: the cells that hold one of the `points` (n, 3), and those beside them."""
    cascade = np.ceil(np.log2(np.maximum(2.0 * from_centre(points), 1.0)))
    side = 2.0**cascade / geometry.resolution
    is_near = mx.zeros(geometry.cells + 1, mx.bool_)
    for offset in product((-1.0, 0.0, 1.0), repeat=3):
        beside = points + side[:, None] * np.array(offset)
        cell = cell_of(mx.array(beside.astype(np.float32)), geometry)
        is_near[mx.where(cell < 0, geometry.cells, cell)] = True
    return is_near[:-1]
