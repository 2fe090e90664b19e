"""`OccupancyGrid`: where matter may be, kept up to date while the field learns.

Every cell holds an estimate of the optical thickness of one shortest step inside it. An update
lets all estimates decay. Then it evaluates the field at a random point of some cells, and raises
their estimates to what it finds there. Cells above the threshold count as occupied (Müller et al.
2022, appendix E.2), as long as light reaches them: nothing that training does can tell what is in
a cell which no training view sees, be it outside of all of them or inside of something. Such cells
would hold a fog that only other views show.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

import mlx.core as mx

from nerfmac.config import Config, OccupancyConfig
from nerfmac.geometry.bounds import Bounds
from nerfmac.geometry.cells import corners_of
from nerfmac.ops.march import MarchGeometry
from nerfmac.ops.occupancy_update import choose, pack_bits, splat

FREE = 2**30
"""In the place of a number of updates: nothing is in the cell, and nothing ever will be."""
AT_ONCE = 2**22
"""Cells that one launch evaluates, at most: a GPU that runs longer holds up its display."""


class Occupancy(NamedTuple):
    """The grid's state; cells are numbered as `nerfmac.geometry.cells` says."""

    values: mx.array  # (cells,) float32, optical thickness of a shortest step
    dark: mx.array  # (cells,) int32, updates since light was seen, at most `patience`; or FREE
    bits: mx.array  # (cells / 32,) uint32
    updates: mx.array  # (1,) int32, those since the warm-up


def march_geometry(config: Config, bounds: Bounds) -> MarchGeometry:
    """The geometry that pictures march with; steps grow only in scenes beyond the unit cube."""
    march = config.march
    cone = march.cone if bounds.cascades > 1 else 0.0
    return MarchGeometry(bounds, config.occupancy.resolution, march.near, march.step, cone)


@dataclass(frozen=True)
class OccupancyGrid:
    """How the grid is updated. It holds no state: an `Occupancy` is passed in and returned."""

    config: OccupancyConfig
    geometry: MarchGeometry

    def init(self, lit: mx.array, free: mx.array | None = None) -> Occupancy:
        """The grid in which the cells that are `lit` are occupied, and no other.

        Those that are `free` never will be; both are (cells,) bool.
        """
        free = mx.array(False) if free is None else free
        dark = mx.where(free, FREE, mx.where(lit, 0, self.config.patience))
        bits = pack_bits((lit & ~free).astype(mx.float32), mx.array([0.5]))
        return Occupancy(mx.zeros(lit.shape), dark, bits, mx.zeros(1, mx.int32))

    def update(
        self,
        occupancy: Occupancy,
        density: Callable[[mx.array], mx.array],
        lit: mx.array,
        key: mx.array,
        *,
        warmup: bool,
    ) -> Occupancy:
        """The grid after a visit to some cells.

        `density` gives (points,) per scene unit at positions (points, 3). During `warmup` the
        visited cells are drawn evenly from all; after it, half of them are drawn from the
        occupied ones. `lit` (cells,) bool says which cells light was seen in just now; patience
        with the others runs out after the warm-up only.
        """
        which, place = mx.random.split(key)
        cells = self._choose(occupancy, which, warmup)
        jitter = mx.random.uniform(shape=(cells.shape[0], 3), key=place)
        lowest, side = corners_of(cells, self.geometry.resolution)
        position = lowest + jitter * side[:, None]
        parts = mx.split(position, list(range(AT_ONCE, position.shape[0], AT_ONCE)))
        thickness = mx.concatenate([density(part) for part in parts]) * self.geometry.step
        peaks = splat(cells, thickness, self.geometry.cells)
        values = mx.maximum(occupancy.values * self.config.decay, peaks)
        updates = occupancy.updates + int(not warmup)
        dark = mx.where(lit, 0, mx.minimum(occupancy.dark + int(not warmup), self.config.patience))
        dark = mx.where(occupancy.dark == FREE, FREE, dark)
        shown = mx.where(dark < self._patience(updates), values, -1.0)
        # Instant-NGP's rule: while the field is thin everywhere, the threshold is its mean.
        innermost = shown[: self.geometry.resolution**3]
        mean = mx.maximum(innermost, 0.0).mean()
        threshold = mx.minimum(mean, self.config.threshold).reshape(1)
        return Occupancy(values, dark, pack_bits(shown, threshold), updates)

    def _patience(self, updates: mx.array) -> mx.array:
        """Updates without light after which a cell counts as empty, when so many have passed.

        That is half of them. A short training could not wait for the longest patience, and had the
        samples of cells that light has left among those it tries.
        """
        longest = self.config.patience
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
    """(count,) uint32, uniform over all 2^32 values."""
    # MLX makes random integers from a float32, which cannot reach most of the 2^32 values. A random
    # key is two words of 32 random bits.
    return mx.random.split(key, max(1, (count + 1) // 2)).reshape(-1)[:count]


def stratified(total: int, count: int, key: mx.array) -> mx.array:
    """(count,) int32 cells in [0, total), one in each of `count` equal strata, all equally likely.

    Exact for up to 2^31 cells, by integers: from 2^24 cells on, float32 would never reach most.
    """
    stratum = mx.arange(count, dtype=mx.int64)
    # The unit is 1 / count of a cell: a stratum is `total` units long, a cell `count` units.
    within = (random_bits(count, key).astype(mx.int64) * total) >> 32
    return ((stratum * total + within) // count).astype(mx.int32)
