"""Folding estimates into the grid and packing its bits, against NumPy."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.common.checks import InputError
from nerfmac.ops.occupancy_update import choose, pack_bits, splat

pytestmark = pytest.mark.usefixtures("run_by")


def estimates(count: int, cells: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(count)
    where = random.integers(0, cells, count).astype(np.int32)
    return where, random.exponential(1.0, count).astype(np.float32)


@pytest.mark.parametrize(("count", "cells"), [(1, 1), (7, 100), (3001, 257), (500, 1)])
def test_a_cell_gets_the_largest_of_its_estimates_and_zero_without_any(count, cells):
    where, thickness = estimates(count, cells)
    want = np.zeros(cells, np.float32)
    np.maximum.at(want, where, thickness)
    got = np.array(splat(mx.array(where), mx.array(thickness), cells))
    assert got.dtype == np.float32
    assert (got == want).all()


def test_floats_of_every_size_are_ordered_by_value():
    sizes = np.array([0.0, 1e-45, 1e-38, 1e-20, 0.5, 1.0, 3e10, 3e38, np.inf], np.float32)
    for order in (sizes, sizes[::-1].copy()):
        for count in range(1, len(sizes) + 1):
            got = splat(mx.zeros(count, mx.int32), mx.array(order[:count]), 2)
            assert got.tolist() == [order[:count].max(), 0.0]


def test_the_order_of_estimates_does_not_matter():
    where, thickness = estimates(2000, 300)
    order = np.random.default_rng(1).permutation(2000)
    one = np.array(splat(mx.array(where), mx.array(thickness), 300))
    other = np.array(splat(mx.array(where[order]), mx.array(thickness[order]), 300))
    assert (one == other).all()


def test_no_gradient_flows_through_a_splat():
    where, thickness = (mx.array(each) for each in estimates(20, 10))
    slope = mx.grad(lambda t: (splat(where, t * t, 10) + t.sum()).sum())(thickness)
    assert slope.tolist() == [10.0] * 20


@pytest.mark.parametrize("count", [32, 96, 4096])
def test_bit_i_of_word_j_tells_whether_value_32_j_plus_i_exceeds_the_threshold(count):
    values = np.random.default_rng(count).normal(size=count).astype(np.float32)
    got = np.array(pack_bits(mx.array(values), mx.array([0.3])))
    want = np.packbits(values > np.float32(0.3), bitorder="little").view(np.uint32)
    assert got.dtype == np.uint32
    assert (got == want).all()


def test_a_value_equal_to_the_threshold_does_not_exceed_it():
    for threshold in (0.0, 0.25, -1.0):
        assert pack_bits(mx.full((32,), threshold), mx.array([threshold])).tolist() == [0]
        above = mx.full((32,), threshold + 1e-6)
        assert pack_bits(above, mx.array([threshold])).tolist() == [2**32 - 1]


@pytest.mark.parametrize(("words", "density"), [(1, 0.5), (7, 0.02), (300, 0.9), (64, 1.0)])
def test_a_draw_chooses_the_set_bit_that_stands_at_the_same_fraction(words, density):
    random = np.random.default_rng(words)
    is_set = random.uniform(size=32 * words) < density
    is_set[5], is_set[-1] = True, False  # the word's end is no place to stop
    bits = np.packbits(is_set, bitorder="little").view(np.uint32)
    places = np.flatnonzero(is_set)
    ranks = random.permutation(len(places))
    fraction = (ranks + random.uniform(0.1, 0.9, len(places))) / len(places)
    got = choose(mx.array(bits), mx.array((fraction * 2**32).astype(np.uint32)))
    assert got.dtype == mx.int32
    assert (np.array(got) == places[ranks]).all()


def test_equal_ranges_of_draws_choose_each_set_bit():
    bits = mx.array([0, 1 << 31, 1 << 7, 0], mx.uint32)
    draws = mx.array([0, 2**31 - 1, 2**31, 2**32 - 1], mx.uint32)
    assert choose(bits, draws).tolist() == [63, 63, 71, 71]


def test_among_more_set_bits_than_float32_counts_each_can_be_chosen():
    words = 2**19 + 2**14  # 2^24 + 2^19 set bits
    cells = np.arange(32 * words - 64, 32 * words)
    # The lowest draw that chooses each: the first at or past its fraction of 2^32.
    draws = mx.array((cells * 2**32 + 32 * words - 1) // (32 * words), mx.uint32)
    assert choose(mx.full((words,), 2**32 - 1, mx.uint32), draws).tolist() == cells.tolist()


def test_without_a_set_bit_the_first_cell_is_chosen():
    assert choose(mx.zeros(3, mx.uint32), mx.array([0, 2**32 - 1], mx.uint32)).tolist() == [0, 0]


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: splat(mx.zeros((2, 2), mx.int32), mx.zeros(4), 4), "cells"),
        (lambda: splat(mx.zeros(3, mx.int32), mx.zeros(4), 4), "estimates"),
        (lambda: splat(mx.zeros(3, mx.float32), mx.zeros(3), 4), "cells"),
        (lambda: splat(mx.zeros(3, mx.int32), mx.zeros(3, mx.float16), 4), "estimates"),
        (lambda: pack_bits(mx.zeros(33), mx.zeros(1)), "values"),
        (lambda: pack_bits(mx.zeros((2, 32)), mx.zeros(1)), "values"),
        (lambda: pack_bits(mx.zeros(32, mx.float16), mx.zeros(1)), "values"),
        (lambda: pack_bits(mx.zeros(32), mx.array(0.5)), "threshold"),
        (lambda: choose(mx.zeros(3), mx.zeros(4, mx.uint32)), "bits"),
        (lambda: choose(mx.zeros((3, 1), mx.uint32), mx.zeros(4, mx.uint32)), "bits"),
        (lambda: choose(mx.zeros(3, mx.uint32), mx.zeros((4, 1), mx.uint32)), "draws"),
        (lambda: choose(mx.zeros(3, mx.uint32), mx.zeros(4, mx.int32)), "draws"),
    ],
)
def test_a_wrong_shape_or_type_is_refused_by_name(call, name):
    with pytest.raises(InputError, match=f"^{name} "):
        call()
