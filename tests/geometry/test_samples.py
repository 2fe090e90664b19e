"""Packed samples: the invariants of `Samples`, held by what marching writes."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac import Samples
from nerfmac.ops.march import Occupied, write_samples
from tests.ops.marching import GEOMETRIES, PLENTY, grid, packed, run, some_rays

pytestmark = pytest.mark.usefixtures("run_by")


@pytest.fixture(params=GEOMETRIES)
def geometry(request):
    return GEOMETRIES[request.param]


def test_samples_of_a_ray_are_ordered_front_to_back(geometry):
    got = run(some_rays(geometry), grid(geometry, 0.3), geometry)
    starts, used = got["ray_start"], got["ray_start"][-1]
    same_ray = got["ray"][1:used] == got["ray"][: used - 1]
    assert (np.diff(got["distance"][:used])[same_ray] > 0).all()
    assert (got["width"][:used] > 0).all()
    assert (starts[1:] - starts[:-1] == got["wanted"]).all()


def test_slots_are_packed_ray_by_ray_and_the_dead_ones_are_zero(geometry):
    got = run(some_rays(geometry), grid(geometry, 0.3), geometry)
    starts, used = got["ray_start"], got["ray_start"][-1]
    assert starts[0] == 0
    assert (np.diff(starts) >= 0).all()
    assert (got["ray"][:used] == np.repeat(np.arange(150), got["wanted"])).all()
    assert used < PLENTY
    for name in ("position", "distance", "width", "ray"):
        assert len(got[name]) == PLENTY
        assert not got[name][used:].any(), name
    assert got["fits"].all()


def test_a_ray_that_does_not_fit_and_those_after_it_get_no_samples(geometry):
    rays, is_set = some_rays(geometry), grid(geometry, 0.3)
    ample = run(rays, is_set, geometry)
    last = 100  # the ray that falls short by one slot
    last += int(np.flatnonzero(ample["wanted"][last:])[0])
    slots = int(ample["ray_start"][last + 1]) - 1
    tight = run(rays, is_set, geometry, slots)
    assert (tight["wanted"] == ample["wanted"]).all()
    assert (tight["ray_start"][: last + 1] == ample["ray_start"][: last + 1]).all()
    assert (tight["ray_start"][last:] == ample["ray_start"][last]).all()
    has_none_left = np.arange(150) >= last
    assert (tight["fits"] == ~(has_none_left & (ample["wanted"] > 0))).all()
    kept = ample["ray_start"][last]
    for name in ("position", "distance", "width", "ray"):
        assert (tight[name][:kept] == ample[name][:kept]).all(), name
        assert not tight[name][kept:].any(), name


def test_rays_may_stop_before_their_last_sample(geometry):
    rays, is_set = some_rays(geometry), grid(geometry, 0.3)
    whole = run(rays, is_set, geometry)
    take = np.random.default_rng(2).integers(0, whole["wanted"] + 1)
    starts = np.concatenate([[0], np.cumsum(take)]).astype(np.int32)
    arrays = [mx.array(each) for each in rays]
    part = write_samples(*arrays, Occupied(geometry, packed(is_set)), PLENTY, mx.array(starts))
    chosen = np.concatenate(
        [first + np.arange(n) for first, n in zip(whole["ray_start"][:-1], take, strict=True)]
    )
    assert 500 < len(chosen) < 0.6 * whole["ray_start"][-1]
    for name in ("position", "distance", "width", "ray"):
        got = np.array(getattr(part, name))
        assert (got[: len(chosen)] == whole[name][chosen]).all(), name
        assert not got[len(chosen) :].any(), name
    assert (np.array(part.ray_start) == starts).all()


def test_a_part_of_the_slots_has_its_own_samples_of_each_ray():
    ray = np.array([0, 0, 0, 2, 2, 3, 0, 0], np.int32)  # the last two slots are unused
    start = np.array([0, 3, 3, 5, 6], np.int32)
    number = np.arange(8, dtype=np.float32)
    position = mx.array(np.stack([number] * 3, axis=1))
    arrays = (mx.array(each) for each in (number, number + 0.5, ray, start, np.diff(start)))
    samples = Samples(position, *arrays)
    assert samples.is_used.tolist() == [True] * 6 + [False] * 2
    part = samples.part(2, 3)
    assert part.distance.tolist() == part.position[:, 0].tolist() == [2.0, 3.0, 4.0]
    assert (part.ray.tolist(), part.width.tolist()) == ([0, 2, 2], [2.5, 3.5, 4.5])
    assert part.ray_start.tolist() == [0, 1, 1, 3, 3]
    assert samples.part(6, 2).is_used.tolist() == [False, False]
