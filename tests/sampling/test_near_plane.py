"""The near plane in front of training cameras, and empty space before it."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.common.constants import NEVER_OCCUPIED
from nerfmac.config import override
from nerfmac.config.sampling import NEAR
from nerfmac.geometry.bounds import Bounds
from nerfmac.geometry.rays import Rays
from nerfmac.ops.march import cell_of
from nerfmac.sampling.marching import MarchingSampler
from nerfmac.sampling.occupancy import Occupancy
from tests.ops.marching import grid, packed
from tests.sampling.grids import bits_of, dense, grid_of, updated
from tests.scene_factory import CONFIG

EXTENT = 2.5

pytestmark = pytest.mark.usefixtures("on_the_cpu")


def beam(origin: mx.array, direction: mx.array) -> Rays:
    """Many rays from the `origin` (1, 3) close around a `direction` (1, 3)."""
    off = 0.02 * np.random.default_rng(6).normal(size=(2000, 3)).astype(np.float32)
    directions = np.array(direction) + off
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return Rays(mx.repeat(origin, len(off), axis=0), mx.array(directions))


def test_samples_begin_at_the_near_plane_and_cells_in_front_of_it_stay_empty():
    def empty(_parameters, position: mx.array, _used: mx.array) -> mx.array:
        return mx.zeros(len(position))

    config = override(CONFIG, march={"near": 0.7, "thin_below": 0.0})
    sampler = MarchingSampler(
        config.march,
        config.occupancy,
        Bounds(EXTENT),
        empty,
    )
    origin, direction = mx.array([[0.45, 0.5, 0.6]]), mx.array([[0.6, 0.0, 0.8]])  # from inside
    state = sampler.init([beam(origin, direction), beam(origin + 1.2 * direction, -direction)])

    def state_at(distance: float) -> tuple[bool, bool]:
        """Whether the cell there is occupied, and whether it is empty for good."""
        cell = int(cell_of(origin + distance * direction, sampler.geometry)[0])
        return bits_of(Occupancy(**state))[cell], int(
            state["updates_since_visible"][cell]
        ) == NEVER_OCCUPIED

    # The other camera is 1.2 away, and sees all of that too.
    assert [state_at(at) for at in (0.1, 0.3, 0.6, 0.9, 1.1)] == [(False, True)] * 5
    assert [state_at(at) for at in (-0.15, 1.35)] == [(True, False)] * 2, "behind a camera"
    full = state | {"bits": packed(grid(sampler.geometry, 1.1))}
    sampled = sampler.sample({}, full, Rays(origin, direction), mx.zeros((1, 2))).samples
    assert 0.699 < float(sampled.distance[0]) < 0.7 + 2 * sampler.geometry.step
    assert sampler.occupied(full).geometry.near == 0.7


def test_with_the_smallest_near_plane_no_cell_stays_empty():
    sampler = MarchingSampler(CONFIG.march, CONFIG.occupancy, Bounds(EXTENT), lambda *_: None)
    rays = Rays(mx.array([[0.45, 0.5, 0.6]]), mx.array([[0.6, 0.0, 0.8]]))
    assert sampler.geometry.near == NEAR
    assert int(sampler.init([rays])["updates_since_visible"].max()) < NEVER_OCCUPIED


def test_a_free_cell_is_never_occupied_however_much_light_and_matter_is_in_it():
    cells, _ = grid_of(visibility_patience=3)
    number = np.arange(cells.geometry.cells)
    visible, empty = number % 3 == 0, number % 5 == 0
    occupancy = cells.init(mx.array(visible), mx.array(empty))
    assert (bits_of(occupancy) == visible & ~empty).all()
    for warmup in (True, False):
        occupancy = updated(cells, occupancy, dense, times=9, warmup=warmup)
        assert (bits_of(occupancy) == ~empty).all()
