"""`OccupancyGrid`, which marks the cells that may contain density.

Each cell stores an estimate of the optical thickness of a marching step with the minimum length.
During training, an update multiplies all estimates by a decay factor and evaluates the field at a
random point in each visited cell. If the result is larger than the cell's estimate, it replaces the
estimate. A cell is occupied if its estimate is above the threshold (Müller et al. 2022, appendix
E.2) and if it is visible along training rays. Training does not determine the density of invisible
cells, such as cells outside all views or inside objects. If invisible cells were occupied, they
could contain haze that appears in other views.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

import mlx.core as mx

from nerfmac.backend import Shapes
from nerfmac.common.constants import BRICK_CELLS
from nerfmac.config import MarchConfig, OccupancyConfig
from nerfmac.geometry.bounds import Bounds
from nerfmac.geometry.cells import corners_of
from nerfmac.ops.march import MarchGeometry
from nerfmac.ops.occupancy_update import choose, pack_bits, splat

NEVER_OCCUPIED = 2**30
"""Value of `Occupancy.updates_since_visible` for cells that are permanently empty."""
MAX_POINTS_PER_LAUNCH = 2**22
"""Maximum number of points that one launch evaluates. A larger launch would delay screen updates,
because the display uses the same GPU."""


class Occupancy(NamedTuple):
    """State of an occupancy grid. Cells are indexed as in `nerfmac.geometry.cells`."""

    values: mx.array  # (cells,) float32, optical thickness of a step with the minimum length
    updates_since_visible: mx.array  # (cells,) int32, at most the patience, or NEVER_OCCUPIED
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
    cone = march.cone if bounds.cascades > 1 else 0.0
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

        Both arguments are bool (cells,). By default, no cell is permanently empty.
        """
        is_empty = mx.array(False) if is_empty is None else is_empty
        since = mx.where(visible, 0, self.config.visibility_patience)
        since = mx.where(is_empty, NEVER_OCCUPIED, since)
        bits = pack_bits((visible & ~is_empty).astype(mx.float32), mx.array([0.5]))
        return Occupancy(mx.zeros(visible.shape), since, bits, mx.zeros(1, mx.int32))

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
        which, where = mx.random.split(key)
        cells = self._choose(occupancy, which, warmup)
        jitter = mx.random.uniform(shape=(cells.shape[0], 3), key=where)
        lowest, side = corners_of(cells, self.geometry.resolution)
        position = lowest + jitter * side[:, None]
        step = MAX_POINTS_PER_LAUNCH
        parts = mx.split(position, list(range(step, position.shape[0], step)))
        thickness = mx.concatenate([density(part) for part in parts]) * self.geometry.step
        peaks = splat(cells, thickness, self.geometry.cells)
        values = mx.maximum(occupancy.values * self.config.decay, peaks)
        updates, before = occupancy.updates + int(not warmup), occupancy.updates_since_visible
        since = mx.minimum(before + int(not warmup), self.config.visibility_patience)
        since = mx.where(visible, 0, since)
        since = mx.where(before == NEVER_OCCUPIED, NEVER_OCCUPIED, since)
        shown = mx.where(since < self._patience(updates), values, -1.0)
        # As in Instant-NGP, the threshold is at most the mean optical thickness of the cells in the
        # unit cube. In this mean, cells that are no longer visible count as 0.
        innermost = shown[: self.geometry.resolution**3]
        mean = mx.maximum(innermost, 0.0).mean()
        threshold = mx.minimum(mean, self.config.threshold).reshape(1)
        return Occupancy(values, since, pack_bits(shown, threshold), updates)

    def _patience(self, updates: mx.array) -> mx.array:
        """Return how many updates a cell stays occupied without being visible.

        The result is half the number of `updates` so far, clamped to [`visibility_patience` / 8,
        `visibility_patience`]. If it were constant, short runs would sample cells that are no
        longer visible until the end of training.
        """
        longest = self.config.visibility_patience
        return mx.clip(updates // 2, max(longest // 8, 1), longest)

    def _choose(self, occupancy: Occupancy, key: mx.array, warmup: bool) -> mx.array:
        total = self.geometry.cells
        fraction = self.config.warmup_fraction if warmup else self.config.fraction
        count = ceil(total * fraction)
        if warmup and count == total:
            return mx.arange(total, dtype=mx.int32)
        anywhere, among = mx.random.split(key)
        if warmup:
            return stratified(total, count, anywhere)
        occupied = choose(occupancy.bits, random_bits(count // 2, among))
        return mx.concatenate([stratified(total, count - count // 2, anywhere), occupied])


def random_bits(count: int, key: mx.array) -> mx.array:
    """Return random integers, uint32 (count,), uniform over all 2^32 values."""
    # mx.random.randint converts a float32 to an integer, so most of the 2^32 values would never
    # occur. Random keys are used instead: each key consists of two words of 32 random bits.
    return mx.random.split(key, max(1, (count + 1) // 2)).reshape(-1)[:count]


def stratified(total: int, count: int, key: mx.array) -> mx.array:
    """Return random cell indices, int32 (count,), in [0, total), one from each of `count` equal
    strata.

    The computation uses integers and is exact for up to 2^31 cells. With float32, only 2^24
    different cells could be selected.
    """
    stratum = mx.arange(count, dtype=mx.int64)
    # In units of 1 / count of a cell, a stratum has the length `total`, and a cell has the length
    # `count`.
    within = (random_bits(count, key).astype(mx.int64) * total) >> 32
    return ((stratum * total + within) // count).astype(mx.int32)
