"""`OccupancyGrid`, which marks the cells that may contain density.

Each cell stores an estimate of the optical thickness of a marching step with the minimum length.
During training, an update multiplies all estimates by a decay factor and evaluates the field at a
random point in each visited cell. If the new estimate is larger than the stored estimate, the new
estimate replaces it. A cell is occupied if its estimate is above the threshold (Müller et al. 2022,
appendix E.2) and if it is visible along training rays. Training does not determine the density of
invisible cells, such as cells outside all views or inside objects. If invisible cells were
occupied, they could contain haze that appears in other views.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

import mlx.core as mx

from nerfmac.backend import Shapes
from nerfmac.common.constants import BRICK_CELLS, EMPTY_IN_WARMUP, NEVER_OCCUPIED
from nerfmac.config import MarchConfig, OccupancyConfig
from nerfmac.geometry.bounds import Bounds
from nerfmac.ops.march import MarchGeometry
from nerfmac.ops.occupancy_update import (
    CellPoints,
    RefreshRule,
    draw_points,
    pack_bits,
    refresh,
    splat,
)

MAX_WARMUP_POINTS = 2**21
"""Maximum number of cells that an update during the warm-up visits, all cells of one cascade with a
resolution of 128. In scenes with several cascades, visiting more cells reduces the quality after
equal training time."""


class Occupancy(NamedTuple):
    """State of an occupancy grid. Cells are indexed as in `nerfmac.geometry.cells`."""

    values: mx.array  # (cells,) float32, optical thickness of a step with the minimum length
    updates_since_visible: mx.array  # (cells,) int32, at most the patience, or a constant
    bits: mx.array  # (cells / BRICK_CELLS,) uint32, 1 for an occupied cell
    updates: mx.array  # (1,) int32, updates since the warm-up

    @classmethod
    def shapes(cls, cells: int) -> Shapes:
        """Return the shapes of the arrays, keyed by name, for a grid with `cells` cells."""
        shapes = (cells,), (cells,), (cells // BRICK_CELLS,), (1,)
        return dict(zip(cls._fields, shapes, strict=True))


def march_geometry(march: MarchConfig, occupancy: OccupancyConfig, bounds: Bounds) -> MarchGeometry:
    """Return the geometry of ray marching, with the near plane of `march`.

    Args:
        march: Settings of ray marching.
        occupancy: Settings of the occupancy grid.
        bounds: The scene cube. If its extent is larger than 1, the step length grows with the
            distance from the camera. If the extent is at most 1, all steps have the same length.

    Returns:
        Geometry with the scene cube, grid resolution, near plane, and step lengths in scene units.
    """
    cone = march.cone if bounds.has_surroundings else 0.0
    return MarchGeometry(bounds, occupancy.resolution, march.near_plane, march.step, cone)


@dataclass(frozen=True)
class OccupancyGrid:
    """Initialization and updates of an occupancy grid.

    The object does not store the grid's state. Its methods accept and return an `Occupancy`.
    """

    config: OccupancyConfig
    geometry: MarchGeometry

    def init(self, visible: mx.array, is_empty: mx.array | None = None) -> Occupancy:
        """Return a grid in which `visible` cells are occupied and `is_empty` cells stay empty
        permanently.

        `visible` and `is_empty` are bool arrays (cells,). By default, no cell is permanently empty.
        """
        is_empty = mx.array(False) if is_empty is None else is_empty
        since = mx.where(visible, 0, self.config.visibility_patience)
        since = mx.where(is_empty, NEVER_OCCUPIED, since)
        bits = _bits(visible & ~is_empty)
        return Occupancy(mx.zeros(visible.shape), since, bits, mx.zeros(1, mx.int32))

    def without(self, occupancy: Occupancy, is_empty: mx.array) -> Occupancy:
        """Return an initial grid in which the occupied cells in `is_empty`, bool (cells,), are
        empty until the end of the warm-up."""
        visible = occupancy.updates_since_visible == 0
        since = mx.where(visible & is_empty, EMPTY_IN_WARMUP, occupancy.updates_since_visible)
        bits = _bits(visible & ~is_empty)
        return occupancy._replace(updates_since_visible=since, bits=bits)

    def update(
        self,
        occupancy: Occupancy,
        density: Callable[[mx.array], mx.array],
        visible: mx.array,
        key: mx.array,
        *,
        warmup: bool,
    ) -> Occupancy:
        """Update the grid by evaluating the field in a fraction of the cells.

        Args:
            occupancy: Grid before the update.
            density: Function that maps positions (points, 3) to density (points,) per scene unit.
            visible: bool (cells,), True for cells that are currently visible along training rays.
            key: Random key.
            warmup: Whether training is in the warm-up phase. During the warm-up, visited cells are
                drawn evenly from all cells, and `updates_since_visible` does not increase. After
                the warm-up, half of the visited cells are drawn from the occupied cells.

        Returns:
            Occupancy grid after the update.
        """
        points = self._draw_points(occupancy.bits, key, warmup)
        updates = occupancy.updates + int(not warmup)
        patience = self.config.visibility_patience
        rule = RefreshRule(self.config.decay, self.geometry.step, patience, warmup)
        values, since, shown = refresh(
            occupancy.values,
            occupancy.updates_since_visible,
            splat(points.cell, density(points.position), self.geometry.cells),
            visible,
            updates,
            rule,
        )
        # As in Instant-NGP, the threshold is at most the mean optical thickness of the cells in the
        # unit cube. In this mean, cells that are no longer visible count as 0.
        innermost = shown[: self.geometry.resolution**3]
        mean = mx.maximum(innermost, 0.0).mean()
        threshold = mx.minimum(mean, self.config.threshold).reshape(1)
        return Occupancy(values, since, pack_bits(shown, threshold), updates)

    def _draw_points(self, bits: mx.array, key: mx.array, warmup: bool) -> CellPoints:
        fraction = self.config.warmup_fraction if warmup else self.config.fraction
        count = ceil(self.geometry.cells * fraction)
        if warmup:
            count = min(count, MAX_WARMUP_POINTS)
        evenly = count if warmup else count - count // 2
        # `mx.random.randint` converts a float32 to an integer, so most of the 2^32 values would
        # never occur. Random keys are used instead: a key consists of two words of 32 random bits.
        draws = mx.random.split(key, count)
        return draw_points(bits, draws, evenly, self.geometry.resolution)


def _bits(is_occupied: mx.array) -> mx.array:
    return pack_bits(is_occupied.astype(mx.float32), mx.array([0.5]))
