"""Cropping of renderings to a box, by hiding the cells of the occupancy grid outside the box.

Cells that do not overlap the box are marked as empty, so all rendering methods skip them at no
extra cost. The crop ends at cell faces, at most one cell outside the box.
"""

from functools import lru_cache

import mlx.core as mx
import numpy as np

from nerfmac.common import SCENE_CENTER, Float64Array
from nerfmac.config.rendering import Box, Corner
from nerfmac.geometry import Placement, cells_of
from nerfmac.ops.march import MarchGeometry
from nerfmac.ops.occupancy_update import pack_bits


def cropped(
    bits: mx.array, geometry: MarchGeometry, box: Box | None, placement: Placement | None = None
) -> mx.array:
    """Clear the occupancy `bits`, as in `ops.march`, of all cells that do not overlap `box`.

    The box is in scene coordinates or, with a `placement`, in file coordinates. If `box` is None,
    the bits do not change. If the placement rotates the box, a cell is kept if it overlaps the box
    along each of the box's axes.
    """
    if box is None:
        return bits
    (low, high), axes = box, np.eye(3)
    if placement is not None:
        shift = placement.turned_to_file(placement.offset)
        low, high = ((placement.scale * np.array(corner) + shift).tolist() for corner in box)
        axes = placement.rotation.T
    # The arguments of the cached function are tuples, because arrays and lists are not hashable.
    return bits & _overlapping(geometry, tuple(low), tuple(high), tuple(axes.ravel().tolist()))


@lru_cache(maxsize=4)
def _overlapping(
    geometry: MarchGeometry, low: Corner, high: Corner, axes: tuple[float, ...]
) -> mx.array:
    """Return one bit per cell, uint32 (cells / 32,): 1 if the cell overlaps the box, otherwise 0.

    A cell that merely touches the box does not overlap it. The box contains the positions p with
    low[k] < axes[k] . p < high[k]. `axes` is a 3 x 3 matrix in row-major order.
    """
    cascade, *cell = cells_of(mx.arange(geometry.cells, dtype=mx.int32), geometry.resolution)
    values = mx.ones(geometry.cells)
    for axis, begin, end in zip(np.reshape(axes, (3, 3)), low, high, strict=True):
        lines = [_along(geometry, component) for component in axis]
        along = sum((line[cascade, i] for line, i in zip(lines, cell, strict=True)), mx.zeros(1))
        reach = _reach(geometry, axis)[cascade]
        values = values * ((along + reach > begin) & (along - reach < end))
    bits = pack_bits(values, mx.array([0.5]))
    mx.eval(bits)
    return bits


def _along(geometry: MarchGeometry, component: float) -> mx.array:
    """Return `component` times the cell centers along an axis, float32 (cascades, resolution)."""
    middle = (np.arange(geometry.resolution) + 0.5) / geometry.resolution - 0.5
    sizes = 2.0 ** np.arange(geometry.bounds.cascades)
    return mx.array((component * (sizes[:, None] * middle + SCENE_CENTER)).astype(np.float32))


def _reach(geometry: MarchGeometry, axis: Float64Array) -> mx.array:
    """Return half of the length that a cell of each cascade covers along `axis`, float32
    (cascades,)."""
    half = 0.5 * 2.0 ** np.arange(geometry.bounds.cascades) / geometry.resolution
    return mx.array((half * np.abs(axis).sum()).astype(np.float32))
