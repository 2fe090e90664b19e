"""`MarchingSampler`: rays march through an occupancy grid and are sampled where matter may be."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import mlx.core as mx

from nerfmac.backend import Arrays, Shapes
from nerfmac.config import Config
from nerfmac.geometry.cameras import Cameras
from nerfmac.geometry.rays import Rays
from nerfmac.ops.march import Occupied, march
from nerfmac.ops.reach import reach
from nerfmac.sampling.occupancy import Occupancy, OccupancyGrid, march_geometry
from nerfmac.sampling.sampler import Density, Sampled, Sampler

UsedDensity = Callable[[Arrays, mx.array, mx.array], mx.array]
"""`Field.density_of_first`: of parameters, positions and how many of them count."""

_WARMUP, _AFTERWARDS = range(2)  # phases of training


class MarchingSampler(Sampler):
    """Samples in occupied cells of Instant-NGP's grid; the state is an `Occupancy`.

    With `train.candidates` only those that light reaches: the slots then hold more rays.
    """

    phases = 2

    def __init__(self, config: Config, extent: float, density: UsedDensity) -> None:
        """Sample a scene whose cube has the side `extent`, in scene units.

        `density` is a field's, see `Field.density_of_first`.
        """
        self._config, self._slots = config.occupancy, config.train.slots
        self._room, self._density = config.train.candidates * config.train.slots, density
        self.geometry = march_geometry(config, extent)
        self._grid = OccupancyGrid(config.occupancy, self.geometry)

    @property
    def most_samples(self) -> int:
        """See `Sampler`."""
        return self.geometry.most_intervals

    @property
    def shapes(self) -> Shapes:
        """The names and shapes of an `Occupancy`'s arrays."""
        cells = self.geometry.cells
        return {"values": (cells,), "bits": (cells // 32,)}

    def init(self, cameras: Cameras) -> Arrays:
        """The grid in which every cell that a camera sees is occupied."""
        return self._grid.init(cameras)._asdict()

    def sample(self, parameters: Arrays, state: Arrays, rays: Rays, drawn: mx.array) -> Sampled:
        """See `Sampler`; `train.slots` samples fit."""
        jitter, bits = drawn.reshape(drawn.shape[0]), state["bits"]
        wanted = None
        if self._room:
            density = partial(self._density, parameters)
            wanted = reach(density, *rays, jitter, self.occupied(state), self._room)
        return Sampled(march(*rays, jitter, bits, self.geometry, self._slots, wanted))

    def interval_at(self, step: int) -> int:
        """See `Sampler`."""
        return self._config.interval_at(step)

    def phase_at(self, step: int) -> int:
        """0 in the warm-up, in which an update visits cells evenly; 1 after it."""
        return _WARMUP if step < self._config.warmup_steps else _AFTERWARDS

    def update(self, state: Arrays, density: Density, key: mx.array, phase: int) -> Arrays:
        """See `Sampler` and `OccupancyGrid.update`."""
        updated = self._grid.update(Occupancy(**state), density, key, warmup=phase == _WARMUP)
        return updated._asdict()

    def occupied(self, state: Arrays) -> Occupied:
        """See `Sampler`."""
        return Occupied(self.geometry, state["bits"])
