"""`OccupancyGrid`: where matter may be, and how that is kept up to date while the field learns.

Every cell holds an estimate of the optical thickness of one shortest step inside it. An update
lets all estimates decay, evaluates the field at a random point of some cells and raises their
estimates to what it finds; cells above the threshold count as occupied (Müller et al. 2022,
appendix E.2). Cells that no training camera sees hold -1 and stay empty.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

import mlx.core as mx

from nerfmac.config import Config, OccupancyConfig
from nerfmac.geometry.cameras import Cameras
from nerfmac.geometry.cells import cells_of
from nerfmac.ops.march import MarchGeometry
from nerfmac.ops.occupancy_update import choose, pack_bits, splat


class Occupancy(NamedTuple):
    """The grid's state; cells are numbered as `nerfmac.geometry.cells` says."""

    values: mx.array  # (cells,) float32, optical thickness of a shortest step; -1 if never seen
    bits: mx.array  # (cells / 32,) uint32


def march_geometry(config: Config, extent: float) -> MarchGeometry:
    """How rays are sampled in a scene of side `extent`; steps grow only beyond the unit cube."""
    march = config.march
    cone = march.cone if extent > 1 else 0.0
    return MarchGeometry(extent, config.occupancy.resolution, march.near, march.step, cone)


@dataclass(frozen=True)
class OccupancyGrid:
    """The grid's policy; its state is an `Occupancy` that goes in and comes out."""

    config: OccupancyConfig
    geometry: MarchGeometry

    def init(self, cameras: Cameras) -> Occupancy:
        """Everything occupied that a camera sees."""
        values = mx.where(self._seen(cameras), 0.0, -1.0)
        return Occupancy(values, pack_bits(values, mx.array([-0.5])))

    def update(
        self,
        occupancy: Occupancy,
        density: Callable[[mx.array], mx.array],
        key: mx.array,
        *,
        warmup: bool,
    ) -> Occupancy:
        """Visit some cells and fold what is found there into the grid.

        `density` gives (points,) per scene unit at (points, 3). In `warmup` cells are drawn
        evenly, later half of them among occupied ones.
        """
        choose, place = mx.random.split(key)
        cells = self._choose(occupancy, choose, warmup)
        jitter = mx.random.uniform(shape=(cells.shape[0], 3), key=place)
        lowest, side = self._corner(cells)
        thickness = density(lowest + jitter * side[:, None]) * self.geometry.step
        peaks = splat(cells, thickness, self.geometry.cells)
        old = occupancy.values
        values = mx.where(old < 0, old, mx.maximum(old * self.config.decay, peaks))
        # Instant-NGP's rule: while the field is thin everywhere, the threshold is its mean.
        innermost = values[: self.geometry.resolution**3]
        mean = mx.maximum(innermost, 0.0).mean()
        threshold = mx.minimum(mean, self.config.threshold).reshape(1)
        return Occupancy(values, pack_bits(values, threshold))

    def _choose(self, occupancy: Occupancy, key: mx.array, warmup: bool) -> mx.array:
        total = self.geometry.cells
        fraction = self.config.warmup_fraction if warmup else self.config.fraction
        count = ceil(total * fraction)
        if warmup and count == total:
            return mx.arange(total, dtype=mx.int32)
        anywhere, among = mx.random.split(key)
        if warmup:
            return _draw(total, count, anywhere)
        shares = mx.random.uniform(shape=(count // 2,), key=among)
        chosen = choose(occupancy.bits, shares)
        return mx.concatenate([_draw(total, count - count // 2, anywhere), chosen])

    def _corner(self, cells: mx.array) -> tuple[mx.array, mx.array]:
        """A cell's lowest corner (cells, 3), in scene coordinates, and its side (cells,)."""
        resolution = self.geometry.resolution
        cascade, *place = cells_of(cells, resolution)
        size = mx.power(2.0, cascade)
        side = size / resolution
        offset = mx.stack(place, axis=1).astype(mx.float32) * side[:, None]
        return 0.5 - 0.5 * size[:, None] + offset, side

    def _seen(self, cameras: Cameras) -> mx.array:
        """(cells,) bool: whether the cell's centre is in front of and inside any view.

        Distortion is left out and a margin of a tenth of the picture put in its place.
        """
        lowest, side = self._corner(mx.arange(self.geometry.cells, dtype=mx.int32))
        centre = lowest + 0.5 * side[:, None]
        seen = mx.zeros(centre.shape[0], mx.bool_)
        for view in range(len(cameras)):
            pose = cameras.poses[view]
            offset = centre - pose[:, 3]
            x, y, back = (mx.sum(offset * pose[:, axis], axis=1) for axis in range(3))
            depth = mx.maximum(-back, 1e-6)
            fl_x, fl_y, cx, cy = (cameras.intrinsics[view, i] for i in range(4))
            # A cell counts as seen when any part of it may be.
            column = mx.abs(fl_x * x / depth + cx - cameras.width / 2) - fl_x * side / depth
            row = mx.abs(fl_y * y / depth - cy + cameras.height / 2) - fl_y * side / depth
            is_inside = (column < 0.6 * cameras.width) & (row < 0.6 * cameras.height)
            seen = seen | (is_inside & (back < side))
            mx.eval(seen)  # one view at a time: a hundred at once would not fit
        return seen


def _draw(total: int, count: int, key: mx.array) -> mx.array:
    """(count,) int32 cells, evenly in [0, total): one in each of `count` equal stretches."""
    begin = mx.arange(count).astype(mx.float32)
    cell = (begin + mx.random.uniform(shape=(count,), key=key)) * (total / count)
    return mx.minimum(cell.astype(mx.int32), total - 1)
