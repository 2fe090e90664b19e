"""Rays get slots in order while they fit, and the mean number of slots per ray is reported."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.ops.packing import fits_mask, ray_starts, samples_per_ray

COUNTS = [3, 0, 4, 2, 9, 1, 0]

pytestmark = pytest.mark.usefixtures("run_by")


def ints(values) -> mx.array:
    return mx.array(values, mx.int32)


@pytest.mark.parametrize(
    ("slots", "starts"),
    [
        (100, [0, 3, 3, 7, 9, 18, 19, 19]),
        (19, [0, 3, 3, 7, 9, 18, 19, 19]),
        (18, [0, 3, 3, 7, 9, 18, 18, 18]),
        (17, [0, 3, 3, 7, 9, 9, 9, 9]),  # a short ray behind one that does not fit gets none
        (3, [0, 3, 3, 3, 3, 3, 3, 3]),
        (2, [0] * 8),
        (0, [0] * 8),
    ],
)
def test_rays_get_slots_in_order_until_one_does_not_fit(slots, starts):
    assert ray_starts(ints(COUNTS), slots).tolist() == starts


@pytest.mark.parametrize(("room", "begun"), [(100, 7), (18, 6), (17, 5), (9, 5), (8, 4), (2, 1)])
@pytest.mark.parametrize("slots", [1, 16])
def test_a_rays_demand_is_the_mean_over_the_rays_that_begin_in_the_room(room, begun, slots):
    kept = [2, 0, 1, 2, 5, 1, 0]
    want = max(np.mean(kept[:begun]), np.mean(COUNTS[:begun]) * slots / room)
    got = samples_per_ray(ints(COUNTS), ints(kept), room, slots)
    assert got.shape == ()
    assert got.item() == pytest.approx(want)


def test_rays_with_all_the_slots_they_want_fit():
    ray_start = mx.array([0, 3, 3, 7, 7], mx.int32)
    fits = fits_mask(ray_start, mx.array([3, 0, 5, 2], mx.int32))
    assert fits.dtype == mx.float32
    assert fits.tolist() == [1.0, 1.0, 0.0, 0.0]
