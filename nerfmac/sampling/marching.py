"""`MarchingSampler`: rays march through an occupancy grid and have samples in occupied cells."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

import mlx.core as mx

from nerfmac.backend import Arrays, Shapes
from nerfmac.common.constants import FAR_DISTANCE
from nerfmac.config import MarchConfig, OccupancyConfig
from nerfmac.geometry.bounds import Bounds
from nerfmac.geometry.rays import Rays
from nerfmac.ops.march import Occupied, march
from nerfmac.ops.packing import samples_per_ray
from nerfmac.ops.thin import thin
from nerfmac.ops.visibility import termination_distances, visible_cells
from nerfmac.sampling.occupancy import Occupancy, OccupancyGrid, march_geometry
from nerfmac.sampling.sampler import Sampled, Sampler

UsedDensity = Callable[[Arrays, mx.array, mx.array], mx.array]
"""`Field.density_of_first`: density from parameters, positions and how many of these count."""

_WARMUP, _AFTERWARDS = range(2)  # phases of training

UPDATE_SAMPLES = 32
"""Mean number of samples per ray that fit into an update. Only rays through fog have more."""


class MarchingSampler(Sampler):
    """Samples in the occupied cells of Instant-NGP's grid; the state is an `Occupancy`.

    In training it marches `march_factor` times as many samples as fit and keeps those that carry
    the colors of the rays, so that the same sample budget holds more rays.
    """

    phases = 2

    def __init__(
        self, march: MarchConfig, occupancy: OccupancyConfig, bounds: Bounds, density: UsedDensity
    ) -> None:
        """Sample rays within `bounds`; `density` is a field's `density_of_first`."""
        self._march, self._config, self._density = march, occupancy, density
        self._capacity = march.march_factor * march.max_samples
        # An object has a few surfaces on each ray. Without noise, its colors become more exact.
        self._thin_below = march.thin_below if bounds.cascades > 1 else 0.0
        self.update_rays = occupancy.visibility_rays
        geometry = march_geometry(march, occupancy, bounds)
        self.geometry = replace(geometry, near=march.training_near_plane)
        self._grid = OccupancyGrid(occupancy, self.geometry)

    @property
    def most_samples(self) -> int:
        """Largest number of samples of a ray: its intervals along the cube's diagonal."""
        return self.geometry.most_intervals

    @property
    def draws(self) -> int:
        """Two numbers for each ray: the jitter of its samples and the offset of its thinning."""
        return 2

    @property
    def shapes(self) -> Shapes:
        """The names and shapes of an `Occupancy`'s arrays."""
        return Occupancy.shapes(self.geometry.cells)

    def init(self, rays: Iterable[Rays]) -> Arrays:
        """The initial grid: cells that any ray passes beyond the near plane are occupied.

        If `march.near_training` is larger than `march.near`, cells between these distances are
        empty: density there would be visible in renderings, but not in training.
        """
        visible = is_empty = mx.zeros(self.geometry.cells, mx.bool_)
        near, at_camera = self.geometry.near, replace(self.geometry, near=0.0)
        for batch in rays:
            middle = mx.full(batch.origin.shape[:1], 0.5)
            everywhere = mx.full(middle.shape, FAR_DISTANCE)
            up_to_near = mx.full(middle.shape, near)
            visible = visible | visible_cells(batch, middle, everywhere, self.geometry)
            if near > self._march.near:
                is_empty = is_empty | visible_cells(batch, middle, up_to_near, at_camera)
            mx.eval(visible, is_empty)  # a batch at a time: all together would not fit
        return self._grid.init(visible, is_empty)._asdict()

    def sample(self, parameters: Arrays, state: Arrays, rays: Rays, drawn: mx.array) -> Sampled:
        """Samples in occupied cells, as in `Sampler`; `march.max_samples` of them fit."""
        occupied, slots = self._occupied(state), self._march.max_samples
        jitter, offsets = drawn[:, 0], drawn[:, 1]
        marched = march(*rays, jitter, occupied, self._capacity)
        density = self._density(parameters, marched.position, marched.used)
        kept = thin(marched, density, offsets, slots, self._thin_below)
        # Marched samples must fit too. Rays beyond the capacity count all their samples as kept;
        # including them in the average would make the number of rays oscillate.
        mean = samples_per_ray(marched.wanted, kept.wanted, self._capacity, slots)
        return Sampled(kept, samples_per_ray=mean)

    def interval_at(self, step: int) -> int:
        """Training steps from one update of the grid to the next, around `step`."""
        return self._config.interval_at(step)

    def phase_at(self, step: int) -> int:
        """0 during the warm-up, when updates visit all cells evenly; 1 afterwards."""
        return _WARMUP if step < self._config.warmup_steps else _AFTERWARDS

    def update(
        self, parameters: Arrays, state: Arrays, rays: Rays, key: mx.array, phase: int
    ) -> Arrays:
        """The state after an update by `OccupancyGrid.update`, with cells that `rays` see."""
        along, grid = mx.random.split(key)
        count = rays.origin.shape[0]
        jitter = mx.random.uniform(shape=(count,), key=along)
        used = partial(self._density, parameters)
        # The fog of the warm-up hides everything: until it lifts, all cells in view are visible.
        until = mx.full((count,), FAR_DISTANCE)
        if phase == _AFTERWARDS:
            capacity = UPDATE_SAMPLES * count
            until = termination_distances(used, rays, jitter, self._occupied(state), capacity)
        visible = visible_cells(rays, jitter, until, self.geometry)

        def density(position: mx.array) -> mx.array:
            return used(position, mx.array([position.shape[0]], mx.int32))

        occupancy, is_warmup = Occupancy(**state), phase == _WARMUP
        return self._grid.update(occupancy, density, visible, grid, warmup=is_warmup)._asdict()

    def _occupied(self, state: Arrays) -> Occupied:
        return Occupied(self.geometry, state["bits"])

    def occupied(self, state: Arrays) -> Occupied:
        """Occupied cells and steps for rendering.

        Steps are shorter than in training and begin at `march.near`.
        """
        step = self.geometry.step / self._march.render_step_divisor
        return Occupied(replace(self.geometry, step=step, near=self._march.near), state["bits"])
