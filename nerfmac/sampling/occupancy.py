"""`OccupancyGrid`, which marks the cells that may contain density, and `MarchingSampler`, which
marches rays through the grid and samples occupied cells.

Each cell stores an estimate of the optical thickness of a marching step with the minimum length.
During training, an update multiplies all estimates by a decay factor and evaluates the field at a
random point in each visited cell. If the new estimate is larger than the stored estimate, the new
estimate replaces it. A cell is occupied if its estimate is above the threshold (Müller et al. 2022,
appendix E.2) and if it is visible along training rays. Training does not determine the density of
invisible cells, such as cells outside all views or inside objects. If invisible cells were
occupied, they could contain haze that appears in other views.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from math import ceil
from typing import NamedTuple

import mlx.core as mx

from nerfmac.backend import Arrays, Shapes
from nerfmac.common import BRICK_CELLS, EMPTY_IN_WARMUP, FAR_DISTANCE, NEVER_OCCUPIED, SENSOR_REACH
from nerfmac.config import NEAR, MarchConfig, OccupancyConfig
from nerfmac.fields.field import DensityOf
from nerfmac.geometry import Bounds, Rays
from nerfmac.ops.march import MarchGeometry, Occupied, march
from nerfmac.ops.occupancy_update import (
    CellPoints,
    RefreshRule,
    draw_points,
    pack_bits,
    refresh,
    splat,
)
from nerfmac.ops.packing import samples_per_ray
from nerfmac.ops.thin import thin
from nerfmac.ops.uniform import uniform
from nerfmac.ops.visibility import termination_distances, visible_cells
from nerfmac.sampling.sampler import Sampled, Sampler, Through

# With the longer steps with which the CPU presets train, renderings have frayed outlines and grain.
RENDER_CONE = 1 / 128  # Maximum of `march.cone` in renderings.
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
        bounds: The scene cube.

    Returns:
        Geometry with the scene cube, grid resolution, near plane, and step lengths in scene units.
    """
    return MarchGeometry(bounds, occupancy.resolution, march.near_plane, march.step, march.cone)


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
        most = MAX_WARMUP_POINTS if warmup else self.geometry.cells
        count = min(ceil(self.geometry.cells * fraction), most)
        evenly = count if warmup else count - count // 2
        # `mx.random.randint` converts a float32 to an integer, so most of the 2^32 values would
        # never occur. Random keys are used instead: a key consists of two words of 32 random bits.
        draws = mx.random.split(key, count)
        return draw_points(bits, draws, evenly, self.geometry.resolution)


def _bits(is_occupied: mx.array) -> mx.array:
    return pack_bits(is_occupied.astype(mx.float32), mx.array([0.5]))


_WARMUP, _AFTERWARDS = range(2)  # phases of training

UPDATE_SAMPLES = 32
"""Maximum mean number of samples per ray in an update of the visible cells. In practice, only rays
through haze require more samples."""


class MarchingSampler(Sampler):
    """Sampler that generates samples in the occupied cells of an occupancy grid, as in Instant-NGP.

    The state of the sampler is an `Occupancy`. In training, marching first generates up to
    `march_factor` times `max_samples` samples. The sampler then keeps at most `max_samples` samples
    that contribute to the colors of their rays, so that a training step can process more rays.
    """

    phases = 2

    def __init__(
        self, march: MarchConfig, occupancy: OccupancyConfig, bounds: Bounds, density: DensityOf
    ) -> None:
        """Create a sampler.

        Args:
            march: Settings of ray marching.
            occupancy: Settings of the occupancy grid.
            bounds: The scene cube.
            density: Method `density` of a field.
        """
        self._march, self._config, self._density = march, occupancy, density
        self._capacity = march.march_factor * march.max_samples
        self.update_rays = occupancy.visibility_rays
        self.geometry = march_geometry(march, occupancy, bounds)
        self._grid = OccupancyGrid(occupancy, self.geometry)

    @property
    def most_samples(self) -> int:
        """Maximum number of samples along a ray: the number of intervals on the diagonal of the
        cube."""
        return self.geometry.most_intervals

    @property
    def draws(self) -> int:
        """Number of random numbers per ray, which is two: the jitter of the samples and the offset
        for thinning."""
        return 2

    @property
    def shapes(self) -> Shapes:
        """Shapes of the arrays of an `Occupancy`, keyed by name."""
        return Occupancy.shapes(self.geometry.cells)

    def init(self, rays: Iterable[Rays]) -> Arrays:
        """Return the initial grid, in which a cell is occupied if a ray crosses the cell behind the
        near plane.

        If the near plane is larger than `NEAR`, cells in front of it are permanently empty. Density
        in these cells would be visible from other cameras, but not in training.
        """
        visible = is_empty = mx.zeros(self.geometry.cells, mx.bool_)
        near, at_camera = self.geometry.near, replace(self.geometry, near=0.0)
        for batch in rays:
            middle = mx.full(batch.origin.shape[:1], 0.5)
            everywhere = mx.full(middle.shape, FAR_DISTANCE)
            up_to_near = mx.full(middle.shape, near)
            visible = visible | visible_cells(batch, middle, everywhere, self.geometry)
            if near > NEAR:
                is_empty = is_empty | visible_cells(batch, middle, up_to_near, at_camera)
            mx.eval(visible, is_empty)  # for each batch, because all batches need too much memory
        return self._grid.init(visible, is_empty)._asdict()

    def with_depth(self, state: Arrays, measured: Iterable[tuple[Rays, mx.array]]) -> Arrays:
        """Return the initial grid without the cells that are empty according to the measured depth.

        These cells are in front of and behind all measured surfaces, and no ray with an unknown
        depth makes them visible. Sensors miss thin objects and glass, so the cells are empty only
        until the end of the warm-up.
        """
        at_camera = replace(self.geometry, near=0.0)
        surface = passed = free = mx.zeros(self.geometry.cells, mx.bool_)
        for rays, known in measured:
            middle, nowhere = mx.full(known.shape[:1], 0.5), mx.zeros(known.shape[:1])
            is_known, begin = known[:, 1] > 0.0, (1.0 - SENSOR_REACH) * known[:, 0]
            moved = rays._replace(origin=rays.origin + begin[:, None] * rays.direction)
            around = mx.where(is_known, 2.0 * SENSOR_REACH * known[:, 0], nowhere)
            surface = surface | visible_cells(moved, middle, around, at_camera)
            in_front = mx.where(is_known, begin, nowhere)
            free = free | visible_cells(rays, middle, in_front, at_camera)
            unknown = mx.where(is_known, nowhere, FAR_DISTANCE)
            passed = passed | visible_cells(rays, middle, unknown, self.geometry)
            mx.eval(surface, passed, free)
        is_empty = ~(surface | (passed & ~free))
        return self._grid.without(Occupancy(**state), is_empty)._asdict()

    def sample(self, parameters: Arrays, state: Arrays, rays: Rays, drawn: mx.array) -> Sampled:
        """Return samples in occupied cells, at most `march.max_samples`; see `Sampler.sample`."""
        occupied, slots = Occupied(self.geometry, state["bits"]), self._march.max_samples
        jitter, offsets = drawn[:, 0], drawn[:, 1]
        marched = march(*rays[:2], jitter, occupied, self._capacity)
        density = self._density(parameters, marched, rays)
        kept = thin(marched, density, offsets, slots, self._march.thin_below)
        # This mean also accounts for the limit on marched samples. Rays beyond the limit are
        # excluded: all of their samples count as kept, so including them would make the number of
        # rays per step oscillate.
        mean = samples_per_ray(marched.wanted, kept.wanted, self._capacity, slots)
        return Sampled(kept, samples_per_ray=mean)

    def interval_at(self, step: int) -> int:
        """Return the number of training steps between updates of the grid at `step`."""
        return self._config.interval_at(step)

    def phase_at(self, step: int) -> int:
        """Return 0 during the warm-up, when updates visit all cells evenly, and 1 afterwards."""
        return _WARMUP if step < self._config.warmup_steps else _AFTERWARDS

    def update(
        self,
        parameters: Arrays,
        state: Arrays,
        rays: Rays,
        through: Through,
        key: mx.array,
        phase: int,
    ) -> Arrays:
        """Return the state after an update of the grid. The update determines along `rays` which
        cells are visible."""
        along, grid = mx.random.split(key)
        count = rays.origin.shape[0]
        jitter = uniform(count, along)
        # During the warm-up, haze hides all surfaces, so every cell along a ray counts as visible.
        until = mx.full((count,), FAR_DISTANCE)
        if phase == _AFTERWARDS:
            occupied = Occupied(self.geometry, state["bits"])
            marched = march(*rays[:2], jitter, occupied, UPDATE_SAMPLES * count)
            until = termination_distances(self._density(parameters, marched, rays), marched)
        visible = visible_cells(rays, jitter, until, self.geometry)

        def density(at: mx.array) -> mx.array:
            return self._density(parameters, *through(at))

        occupancy, is_warmup = Occupancy(**state), phase == _WARMUP
        return self._grid.update(occupancy, density, visible, grid, warmup=is_warmup)._asdict()

    def occupied(self, state: Arrays) -> Occupied:
        """Return the occupied cells and the marching steps for rendering, which are shorter than in
        training."""
        step = self.geometry.step / self._march.render_step_divisor
        cone = min(self.geometry.cone, RENDER_CONE)
        return Occupied(replace(self.geometry, step=step, cone=cone), state["bits"])
