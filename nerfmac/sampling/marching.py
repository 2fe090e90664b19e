"""`MarchingSampler`: rays march through an occupancy grid and are sampled where matter may be."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

import mlx.core as mx

from nerfmac.backend import Arrays, Shapes
from nerfmac.config import Config
from nerfmac.geometry.bounds import Bounds
from nerfmac.geometry.rays import Rays
from nerfmac.ops.march import Occupied, march
from nerfmac.ops.packing import demand
from nerfmac.ops.reach import FAR, light_ends, lit_cells, reach
from nerfmac.sampling.occupancy import Occupancy, OccupancyGrid, march_geometry
from nerfmac.sampling.sampler import Sampled, Sampler

UsedDensity = Callable[[Arrays, mx.array, mx.array], mx.array]
"""`Field.density_of_first`: of parameters, positions and how many of them count."""

_WARMUP, _AFTERWARDS = range(2)  # phases of training

ROOM = 32
"""Samples of each followed ray that there is room for, in the mean. More come in a fog only."""


class MarchingSampler(Sampler):
    """Samples in occupied cells of Instant-NGP's grid; the state is an `Occupancy`.

    With `train.candidates` only those that light reaches: the slots then hold more rays.
    """

    phases = 2

    def __init__(self, config: Config, bounds: Bounds, density: UsedDensity) -> None:
        """Sample rays within `bounds`.

        `density` is a field's, see `Field.density_of_first`.
        """
        self._config, self._slots = config.occupancy, config.train.slots
        self._refine, self.followed = config.march.refine, config.occupancy.followed
        self._room, self._density = config.train.candidates * config.train.slots, density
        pictures = march_geometry(config, bounds)
        self._near, near = pictures.near, config.train.near or pictures.near
        self.geometry = replace(pictures, near=near)
        self._grid = OccupancyGrid(config.occupancy, self.geometry)

    @property
    def most_samples(self) -> int:
        """See `Sampler`."""
        return self.geometry.most_intervals

    @property
    def shapes(self) -> Shapes:
        """The names and shapes of an `Occupancy`'s arrays."""
        cells = self.geometry.cells
        return {"values": (cells,), "dark": (cells,), "bits": (cells // 32,), "updates": (1,)}

    def init(self, rays: Iterable[Rays]) -> Arrays:
        """The grid in which every cell that one of the `rays` passes is occupied.

        Up to the near plane of training, where it is further than that of pictures, cells are free:
        samples of other cameras' rays could hide there what no training view looks through.
        """
        lit = free = mx.zeros(self.geometry.cells, mx.bool_)
        near, at_camera = self.geometry.near, replace(self.geometry, near=0.0)
        for some in rays:
            middle = mx.full(some.origin.shape[:1], 0.5)
            lit = lit | lit_cells(some, middle, mx.full(middle.shape, FAR), self.geometry)
            if near > self._near:
                free = free | lit_cells(some, middle, mx.full(middle.shape, near), at_camera)
            mx.eval(lit, free)  # a batch at a time: all together would not fit
        return self._grid.init(lit, free)._asdict()

    def sample(self, parameters: Arrays, state: Arrays, rays: Rays, drawn: mx.array) -> Sampled:
        """See `Sampler`; `train.slots` samples fit."""
        jitter, occupied = drawn.reshape(drawn.shape[0]), self._occupied(state)
        fitted = partial(march, *rays, jitter, occupied.bits, self.geometry, self._slots)
        if not self._room:
            return Sampled(fitted())
        density = partial(self._density, parameters)
        found = reach(density, rays, jitter, occupied, self._room)
        # Rays must fit the slots and the room for trying them. Those past the room would count as
        # reached to their end: one step then wants far fewer rays, and the next one more again.
        needed = demand(found.tried, found.reached, self._room, self._slots)
        return Sampled(fitted(found.reached), demand=needed)

    def interval_at(self, step: int) -> int:
        """See `Sampler`."""
        return self._config.interval_at(step)

    def phase_at(self, step: int) -> int:
        """0 in the warm-up, in which an update visits cells evenly; 1 after it."""
        return _WARMUP if step < self._config.warmup_steps else _AFTERWARDS

    def update(
        self, parameters: Arrays, state: Arrays, rays: Rays, key: mx.array, phase: int
    ) -> Arrays:
        """See `Sampler` and `OccupancyGrid.update`."""
        along, grid = mx.random.split(key)
        count = rays.origin.shape[0]
        jitter = mx.random.uniform(shape=(count,), key=along)
        used = partial(self._density, parameters)
        # During the warm-up the fog tells nothing about light: all that is in view counts as lit.
        ends = mx.full((count,), FAR)
        if phase == _AFTERWARDS:
            ends = light_ends(used, rays, jitter, self._occupied(state), ROOM * count)
        lit = lit_cells(rays, jitter, ends, self.geometry)

        def density(position: mx.array) -> mx.array:
            return used(position, mx.array([position.shape[0]], mx.int32))

        now, is_warmup = Occupancy(**state), phase == _WARMUP
        return self._grid.update(now, density, lit, grid, warmup=is_warmup)._asdict()

    def _occupied(self, state: Arrays) -> Occupied:
        return Occupied(self.geometry, state["bits"])

    def occupied(self, state: Arrays) -> Occupied:
        """See `Sampler`; a picture's steps are shorter than those of training, and begin nearer."""
        finer = replace(self.geometry, step=self.geometry.step / self._refine, near=self._near)
        return Occupied(finer, state["bits"])
