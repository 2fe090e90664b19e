"""Random points in cells, estimates of cells, and packing of bits, against NumPy."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.common.constants import EMPTY_IN_WARMUP, NEVER_OCCUPIED
from nerfmac.geometry.bounds import Bounds
from nerfmac.ops.march import MarchGeometry, cell_of
from nerfmac.ops.occupancy_update import RefreshRule, draw_points, pack_bits, refresh, splat

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


RESOLUTION = 16
WORDS = 2 * RESOLUTION**3 // 32  # two cascades


def drawn(bits: np.ndarray, draws: np.ndarray, evenly: int) -> tuple[np.ndarray, np.ndarray]:
    words = np.zeros((len(draws), 2), np.uint32)
    words[:, 0] = draws
    words[:, 1] = np.random.default_rng(1).integers(0, 2**32, len(draws), dtype=np.uint32)
    points = draw_points(mx.array(bits), mx.array(words), evenly, RESOLUTION)
    assert points.cell.dtype == mx.int32
    return np.array(points.cell).astype(np.int64), np.array(points.position)


def random_words(words: int, filled: float) -> np.ndarray:
    is_set = np.random.default_rng(words).random(32 * words) < filled
    return np.packbits(is_set, bitorder="little").view(np.uint32)


def places_of(bits: np.ndarray) -> np.ndarray:
    return np.flatnonzero(np.unpackbits(bits.view(np.uint8), bitorder="little"))


@pytest.mark.parametrize("filled", [0.001, 0.02, 0.5, 1.0])
@pytest.mark.parametrize("count", [1, 7, 4096, 5000])
def test_each_stratum_of_the_grid_and_of_the_occupied_cells_has_one_point(filled, count):
    bits = random_words(WORDS, filled)
    places, total = places_of(bits), 32 * WORDS
    draws = np.random.default_rng(count).integers(0, 2**32, 2 * count, dtype=np.uint32)
    cell, _ = drawn(bits, draws, count)
    stratum = np.arange(count)
    within = draws.astype(object)
    anywhere = [(i * total + (d * total >> 32)) // count for i, d in enumerate(within[:count])]
    assert (cell[:count] == np.array(anywhere)).all()
    assert (cell[:count] >= stratum * total // count).all()
    assert (cell[:count] <= ((stratum + 1) * total - 1) // count).all()
    held = len(places)
    ranks = [(i * held + (d * held >> 32)) // count for i, d in enumerate(within[count:])]
    assert (cell[count:] == places[np.array(ranks)]).all()


def test_all_cells_once_if_there_is_a_point_for_each():
    total = 32 * WORDS
    draws = np.random.default_rng(0).integers(0, 2**32, total, dtype=np.uint32)
    assert (drawn(random_words(WORDS, 0.5), draws, total)[0] == np.arange(total)).all()


def test_points_are_inside_their_cells_and_fill_them_evenly():
    total = 32 * WORDS
    draws = np.random.default_rng(2).integers(0, 2**32, 2 * total, dtype=np.uint32)
    cell, position = drawn(random_words(WORDS, 1.0), draws, total)
    geometry = MarchGeometry(Bounds(2.0), RESOLUTION, 0.05, 0.01, 0.0)
    inner, outer = cell < total // 2, cell >= total // 2
    far = np.abs(position - 0.5).max(axis=1) >= 0.5  # not covered by the smaller cascade
    found = np.array(cell_of(mx.array(position), geometry))
    assert (found[inner] == cell[inner]).all()
    assert (found[outer & far] == cell[outer & far]).all()
    assert np.abs(position[outer] - 0.5).max() > 0.99
    side = np.where(inner, 1.0, 2.0)[:, None] / RESOLUTION
    within = position / side % 1.0
    # 16,384 uniform values: the mean has a standard error of 0.0023, the variance one of 0.0006.
    assert np.abs(within.mean(axis=0) - 0.5).max() < 5 * 0.0023
    assert np.abs(within.var(axis=0) - 1 / 12).max() < 5 * 0.0006
    assert np.abs(np.corrcoef(within.T) - np.eye(3)).max() < 5 / np.sqrt(len(within))


def test_among_more_set_bits_than_float32_counts_each_can_be_chosen():
    resolution, words = 256, 2**19 + 2**14  # 2^24 + 2^19 set bits
    held = 32 * words
    count = 64
    draws = np.zeros((count, 2), np.uint32)
    # The lowest draw that selects the cell, the first one at or past its fraction of a stratum.
    cells = np.arange(count) * held // count + 1001
    within = cells * count - np.arange(count) * held
    draws[:, 0] = -(-(within * 2**32) // held)
    points = draw_points(mx.full((words,), 2**32 - 1, mx.uint32), mx.array(draws), 0, resolution)
    assert points.cell.tolist() == cells.tolist()


def test_without_a_set_bit_the_first_cell_is_chosen():
    cell, _ = drawn(np.zeros(WORDS, np.uint32), np.full(3, 2**32 - 1, np.uint32), 1)
    assert cell.tolist() == [32 * WORDS - 1, 0, 0]


def refreshed(values, since, peaks, seen, updates, *, is_warmup=False):
    arrays = (
        mx.array(values, mx.float32),
        mx.array(since, mx.int32),
        mx.array(peaks, mx.float32),
        mx.array(np.array(seen, bool)),
        mx.array([updates], mx.int32),
    )
    rule = RefreshRule(decay=0.5, step=0.25, patience=16, is_warmup=is_warmup)
    return [each.tolist() for each in refresh(*arrays, rule)]


def test_estimates_decay_until_a_larger_one_replaces_them():
    values, *_ = refreshed([1.0, 1.0, 0.0, 2.0], [0] * 4, [0.0, 4.0, 8.0, 2.0], [True] * 4, 1)
    assert values == [0.5, 1.0, 2.0, 1.0]


def test_a_cell_is_shown_until_it_was_invisible_for_half_of_the_updates():
    since = [0, 1, 2, 3, 14, 15, 16, NEVER_OCCUPIED, NEVER_OCCUPIED]
    seen = [False] * 8 + [True]
    for updates, patience in ((0, 2), (7, 3), (20, 10), (100, 16)):
        _, after, shown = refreshed([1.0] * 9, since, [0.0] * 9, seen, updates)
        assert after == [1, 2, 3, 4, 15, 16, 16, NEVER_OCCUPIED, NEVER_OCCUPIED]
        assert shown == [0.5 if age < patience else -1.0 for age in after]
    _, after, _ = refreshed([1.0] * 9, since, [0.0] * 9, seen, 0, is_warmup=True)
    assert after == [*since[:7], NEVER_OCCUPIED, NEVER_OCCUPIED]
    _, after, shown = refreshed([1.0] * 9, since, [0.0] * 9, [True] * 9, 0)
    assert after == [0] * 7 + [NEVER_OCCUPIED] * 2
    assert shown == [0.5] * 7 + [-1.0] * 2


def test_a_measured_empty_cell_is_not_shown_before_the_end_of_the_warm_up():
    given = [1.0] * 2, [EMPTY_IN_WARMUP] * 2, [0.0] * 2, [True, False]
    _, after, shown = refreshed(*given, 0, is_warmup=True)
    assert (after, shown) == ([EMPTY_IN_WARMUP] * 2, [-1.0] * 2)
    _, after, shown = refreshed(*given, 1)
    assert (after, shown) == ([0, 16], [0.5, -1.0])
