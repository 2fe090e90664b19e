"""Where rays end, and the cells that they reach before, against NumPy."""

from itertools import pairwise

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.common.constants import EARLY_STOP_TRANSMITTANCE, FAR_DISTANCE
from nerfmac.geometry import Rays
from nerfmac.ops.march import Occupied, march
from nerfmac.ops.visibility import termination_distances, visible_cells
from tests.ops.marching import GEOMETRIES, grid, packed, some_rays

pytestmark = pytest.mark.usefixtures("run_by")
GEOMETRY = GEOMETRIES["scene"]


def marched(slots):
    arrays = [mx.array(each) for each in some_rays(GEOMETRY, 60)]
    return march(*arrays, Occupied(GEOMETRY, packed(grid(GEOMETRY, 0.5))), slots)


@pytest.mark.parametrize("opacity", [0.0, 40.0, 4000.0])
def test_a_ray_ends_at_the_sample_behind_which_little_light_is_left(opacity):
    samples = marched(20_000)
    density = opacity * np.random.default_rng(5).random(20_000).astype(np.float32)
    ends = np.array(termination_distances(mx.array(density), samples))
    starts, width, distance = (
        np.array(each) for each in (samples.ray_start, samples.width, samples.distance)
    )
    found = 0
    for ray, (first, last) in enumerate(pairwise(starts)):
        left = np.exp(-np.cumsum(density[first:last].astype(float) * width[first:last]))
        margin = np.abs(left - EARLY_STOP_TRANSMITTANCE).min(initial=1.0)
        if margin < 1e-7:
            continue  # rounding decides
        dark = np.flatnonzero(left < EARLY_STOP_TRANSMITTANCE)
        if not len(dark):
            assert ends[ray] == FAR_DISTANCE
            continue
        at, half = first + dark[0], 0.5 * width[first + dark[0]]
        assert distance[at] < ends[ray] <= distance[at] + 1.01 * half
        found += 1
    assert (found == 0) == (opacity == 0.0)
    assert found == 0 or opacity < 100 or found > 30


def test_a_ray_that_does_not_fit_ends_at_its_origin():
    samples = marched(200)
    ends = np.array(termination_distances(mx.zeros(200), samples))
    fits = np.array(samples.ray_start)[1:] - np.array(samples.ray_start)[:-1] == np.array(
        samples.wanted
    )
    assert 0 < fits.sum() < len(fits)
    assert np.array_equal(ends, np.where(fits, FAR_DISTANCE, 0.0).astype(np.float32))


def test_a_cell_is_visible_if_a_position_in_front_of_an_end_is_in_it():
    origins, directions, jitter = some_rays(GEOMETRY, 40)
    everywhere = Occupied(GEOMETRY, packed(np.ones_like(grid(GEOMETRY, 0.0))))
    samples = march(mx.array(origins), mx.array(directions), mx.array(jitter), everywhere, 60_000)
    used = int(samples.used.item())
    ray, distance = np.array(samples.ray)[:used], np.array(samples.distance)[:used]
    rays = Rays(mx.array(origins), mx.array(directions))

    def cells(until):
        ends = mx.array(until.astype(np.float32))
        return np.array(visible_cells(rays, mx.array(jitter), ends, GEOMETRY))

    far, near = np.full(40, FAR_DISTANCE), np.zeros(40)
    middles = [np.median(distance[ray == index]) for index in range(40) if (ray == index).any()]
    assert len(middles) == 40
    until = np.array(middles)
    everything, half, nothing = cells(far), cells(until), cells(near)
    assert not nothing.any()
    assert not (half & ~everything).any()
    assert 0 < half.sum() < everything.sum()
    # One ray alone: as many cells as its positions in front of the end touch.
    for index in (3, 17):
        alone = np.zeros(40)
        alone[index] = until[index]
        reached = cells(alone)
        assert not (reached & ~half).any()
        assert 0 < reached.sum() <= (distance[ray == index] <= until[index]).sum()
