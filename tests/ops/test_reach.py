"""How far light reaches, by its laws."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.ops.composite import count_reached
from nerfmac.ops.march import Occupied, count_samples
from nerfmac.ops.reach import reach
from tests.ops.marching import GEOMETRIES, grid, packed, some_rays

COUNT = 150

pytestmark = pytest.mark.usefixtures("on_the_cpu")


def marched_rays(name: str, filled: float = 0.6):
    """Rays and jitter, occupied cells, and how many samples each ray has in them."""
    geometry = GEOMETRIES[name]
    given = tuple(map(mx.array, some_rays(geometry, COUNT)))
    occupied = Occupied(geometry, packed(grid(geometry, filled)))
    return given, occupied, np.array(count_samples(*given, occupied.bits, geometry))


def slanted(position: mx.array, _used: mx.array) -> mx.array:
    """A density that differs in all directions."""
    return mx.exp(position @ mx.array([1.0, -2.0, 3.0]))


@pytest.mark.parametrize("name", GEOMETRIES)
def test_in_clear_air_light_reaches_every_sample(name):
    given, occupied, marched = marched_rays(name)
    assert marched.max() > 5
    reached = reach(lambda p, _: mx.zeros(p.shape[0]), *given, occupied, 40_000)
    assert (np.array(reached) == marched).all()


@pytest.mark.parametrize("name", GEOMETRIES)
def test_behind_a_wall_light_reaches_nothing(name):
    given, occupied, marched = marched_rays(name)
    reached = reach(lambda p, _: mx.full(p.shape[0], 1e9), *given, occupied, 40_000)
    assert (np.array(reached) == np.minimum(marched, 1)).all()


def test_rays_end_where_a_ten_thousandth_of_the_light_is_left():
    density, widths = mx.full((30,), 2.0), mx.full((30,), 0.5)  # each sample passes 1 / e
    reached = count_reached(density, widths, mx.array([0, 4, 4, 30], mx.int32))
    # exp(-9) is above 1e-4 and exp(-10) below: the tenth sample is the last.
    assert reached.tolist() == [4, 0, 10]


def test_where_room_ends_rays_count_all_their_samples():
    given, occupied, marched = marched_rays("object")
    whole = np.array(reach(lambda *given: 40.0 * slanted(*given), *given, occupied, 40_000))
    assert (whole < marched).any(), "some rays end"
    room = int(marched.sum()) // 2
    fits = np.cumsum(marched) <= room
    got = np.array(reach(lambda *given: 40.0 * slanted(*given), *given, occupied, room))
    assert (got == np.where(fits, whole, marched)).all()


def test_the_density_is_told_how_many_positions_count():
    given, occupied, marched = marched_rays("scene")
    told = []

    def density(position: mx.array, used: mx.array) -> mx.array:
        told.append(used)
        # What is behind them may be anything.
        return mx.where(mx.arange(position.shape[0]) < used, slanted(position, used), mx.nan)

    got = reach(density, *given, occupied, 40_000)
    assert (np.array(got) == np.array(reach(slanted, *given, occupied, 40_000))).all()
    assert told[0].tolist() == [marched.sum()]
