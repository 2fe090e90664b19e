"""How far light reaches, by its laws."""

from itertools import pairwise

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.common.constants import FAR_DISTANCE
from nerfmac.geometry.rays import Rays
from nerfmac.ops.march import Occupied, cell_of, count_samples, march
from nerfmac.ops.visibility import termination_distances, visible_cells
from tests.ops.marching import GEOMETRIES, grid, packed, some_rays

COUNT = 150

pytestmark = pytest.mark.usefixtures("on_the_cpu")


def marched_rays(name: str, filled: float = 0.6):
    """Rays and jitter, occupied cells, and how many samples each ray has in them."""
    geometry = GEOMETRIES[name]
    origins, directions, jitter = map(mx.array, some_rays(geometry, COUNT))
    occupied = Occupied(geometry, packed(grid(geometry, filled)))
    marched = count_samples(origins, directions, jitter, occupied)
    return (Rays(origins, directions), jitter), occupied, np.array(marched)


def wall(at: float):
    """A density that nothing passes from x = `at` on, and none before."""
    return lambda position, _used: mx.where(position[:, 0] > at, 1e9, 0.0)


@pytest.mark.parametrize("name", GEOMETRIES)
def test_light_ends_at_the_wall_or_goes_on_for_ever(name):
    given, occupied, marched = marched_rays(name)
    ends = np.array(termination_distances(wall(0.45), *given, occupied, 40_000))
    rays, jitter = given
    samples = march(*rays, jitter, occupied, 40_000)
    starts, x = np.array(samples.ray_start), np.array(samples.position[:, 0])
    distance, width = np.array(samples.distance), np.array(samples.width)
    stopped = 0
    for ray, (begin, end) in enumerate(pairwise(starts)):
        hits = np.flatnonzero(x[begin:end] > 0.45)
        stopped += len(hits) > 0
        # A sample that ends the light counts, though it be the last one of its ray.
        first = begin + hits[0] if len(hits) else None
        want = FAR_DISTANCE if first is None else distance[first] + 0.5 * width[first]
        assert ends[ray] == pytest.approx(want, rel=1e-6)
    assert 10 < stopped < (marched > 0).sum() - 10


def test_where_room_ends_light_is_not_known_to_get_anywhere():
    given, occupied, marched = marched_rays("object")
    fits = np.cumsum(marched) <= marched.sum() // 2
    ends = np.array(termination_distances(wall(0.45), *given, occupied, int(marched.sum()) // 2))
    assert (ends[~fits] == 0.0).all()
    assert (ends[fits] > 0.0).all()


@pytest.mark.parametrize("name", GEOMETRIES)
def test_cells_are_lit_where_a_ray_has_a_place_up_to_its_end(name):
    ((rays, jitter), occupied, _), geometry = marched_rays(name), GEOMETRIES[name]
    until = (
        np.random.default_rng(1)
        .uniform(0.0, 2.0 * geometry.bounds.extent, COUNT)
        .astype(np.float32)
    )
    until[::3] = FAR_DISTANCE
    visible = np.array(visible_cells(rays, jitter, mx.array(until), geometry))
    everywhere = mx.full(occupied.bits.shape, 2**32 - 1, mx.uint32)
    places = march(*rays, jitter, Occupied(geometry, everywhere), 200_000)
    assert bool(places.fits.all())
    used = int(places.ray_start[-1])
    cells = np.array(cell_of(places.position, geometry))[:used]
    is_seen = np.array(places.distance)[:used] <= until[np.array(places.ray)[:used]]
    want = np.zeros(geometry.cells, bool)
    want[cells[is_seen]] = True
    assert 50 < want.sum() < geometry.cells // 2
    assert (visible != want).mean() < 1e-3, "rounding moves a place over a face here and there"
    assert (want[cells] != is_seen).any(), "some rays end"
