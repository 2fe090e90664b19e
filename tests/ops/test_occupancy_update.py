"""Random points in cells, estimates of cells, and packing of bits, against NumPy."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.common.checks import InputError
from nerfmac.common.constants import NEVER_OCCUPIED
from nerfmac.geometry.bounds import Bounds
from nerfmac.ops.march import MarchGeometry, cell_of
from nerfmac.ops.occupancy_update import RefreshRule, pack_bits, random_points, refresh, splat

pytestmark = pytest.mark.usefixtures("run_by")


RESOLUTION = 16
SCENE = MarchGeometry(Bounds(2.0), RESOLUTION, 0.05, 0.01, 0.0)  # two cascades


def estimates(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positions, of which some are outside the grid, their cells or -1, and estimates."""
    random = np.random.default_rng(count)
    position = (0.5 + random.uniform(-1.05, 1.05, (count, 3))).astype(np.float32)
    cell = np.array(cell_of(mx.array(position), SCENE))
    return position, cell, random.exponential(1.0, count).astype(np.float32)


def splatted(position: np.ndarray, density: np.ndarray, used: int | None = None) -> np.ndarray:
    used = len(density) if used is None else used
    arrays = mx.array(position), mx.array(density), mx.array([used], mx.int32)
    return np.array(splat(*arrays, SCENE))


@pytest.mark.parametrize(("count", "used"), [(1, 1), (7, 7), (3001, 3001), (3001, 2000), (500, 0)])
def test_a_cell_gets_the_largest_of_its_valid_estimates_and_zero_without_any(count, used):
    position, cell, density = estimates(count)
    is_valid = (cell >= 0) & (np.arange(count) < used)
    want = np.zeros(SCENE.cells, np.float32)
    np.maximum.at(want, cell[is_valid], density[is_valid])
    got = splatted(position, density, used)
    assert got.dtype == np.float32
    assert (got == want).all()
    if count > 1000:
        assert (cell < 0).mean() > 0.05
        assert is_valid.sum() > (want > 0).sum() > 100, "some cells have several estimates"


def test_floats_of_every_size_are_ordered_by_value():
    sizes = np.array([0.0, 1e-45, 1e-38, 1e-20, 0.5, 1.0, 3e10, 3e38, np.inf], np.float32)
    for order in (sizes, sizes[::-1].copy()):
        for count in range(1, len(sizes) + 1):
            got = splatted(np.full((count, 3), 0.3, np.float32), order[:count])
            assert got.max() == order[:count].max()
            assert (got > 0).sum() <= 1


def test_the_order_of_estimates_does_not_matter():
    position, _, density = estimates(2000)
    order = np.random.default_rng(1).permutation(2000)
    assert (splatted(position, density) == splatted(position[order], density[order])).all()


def test_no_gradient_flows_through_a_splat():
    position, _, density = (mx.array(each) for each in estimates(20))
    used = mx.array([20], mx.int32)
    slope = mx.grad(lambda d: (splat(position, d * d, used, SCENE) + d.sum()).sum())(density)
    assert slope.tolist() == [SCENE.cells] * 20


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


def drawn(seed: int, count: int, geometry: MarchGeometry = SCENE) -> tuple[np.ndarray, np.ndarray]:
    """Points, and the indices of their cells."""
    position = random_points(mx.random.key(seed), count, geometry)
    assert position.dtype == mx.float32
    return np.array(position), np.array(cell_of(position, geometry)).astype(np.int64)


@pytest.mark.parametrize("count", [1, 7, 4096, 5000])
def test_each_stratum_of_the_grid_has_one_point(count):
    # With one cascade, no cell is covered by a smaller one.
    cube = MarchGeometry(Bounds(1.0), RESOLUTION, 0.05, 0.01, 0.0)
    _, cell = drawn(count, count, cube)
    stratum = np.arange(count)
    assert (cell >= stratum * cube.cells // count).all()
    assert (cell <= ((stratum + 1) * cube.cells - 1) // count).all()


def test_each_cell_of_a_stratum_is_drawn_equally_often():
    cube = MarchGeometry(Bounds(1.0), RESOLUTION, 0.05, 0.01, 0.0)
    counts = np.zeros(cube.cells)
    for seed in range(40):
        np.add.at(counts, drawn(seed, cube.cells // 4, cube)[1], 1)
    # Each of a stratum's four cells is drawn 40 / 4 times, give or take the binomial's 2.7.
    assert counts.mean() == 10.0
    assert 0.9 < counts.std() / np.sqrt(40 * 0.25 * 0.75) < 1.1
    within = counts.reshape(-1, 4).mean(axis=0)
    assert np.abs(within - 10.0).max() < 5 * 2.74 / np.sqrt(cube.cells / 4)


def test_points_are_inside_their_cells_and_fill_them_evenly():
    total = SCENE.cells
    position, found = drawn(2, total)
    cell = np.arange(total)  # with one point for each cell
    inner, outer = cell < total // 2, cell >= total // 2
    far = np.abs(position - 0.5).max(axis=1) >= 0.5  # not covered by the smaller cascade
    assert (found[inner] == cell[inner]).all()
    assert (found[outer & far] == cell[outer & far]).all()
    assert np.abs(position[outer] - 0.5).max() > 0.99
    side = np.where(inner, 1.0, 2.0)[:, None] / RESOLUTION
    within = position / side % 1.0
    # 8,192 uniform values: the mean has a standard error of 0.0032, the variance one of 0.0009.
    assert np.abs(within.mean(axis=0) - 0.5).max() < 5 * 0.0032
    assert np.abs(within.var(axis=0) - 1 / 12).max() < 5 * 0.0009
    assert np.abs(np.corrcoef(within.T) - np.eye(3)).max() < 5 / np.sqrt(len(within))


def test_among_more_cells_than_float32_counts_each_can_be_drawn():
    geometry = MarchGeometry(Bounds(2.0), 256, 0.05, 0.01, 0.0)  # 2^25 cells
    _, cell = drawn(0, 4096, geometry)
    last = cell[cell >= 2**24]
    assert len(last) > 1000
    assert 0.4 < (last % 2).mean() < 0.6


ONE = mx.array([1], mx.int32)


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


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: splat(mx.zeros((4, 2)), mx.zeros(4), ONE, SCENE), "positions"),
        (lambda: splat(mx.zeros((3, 3)), mx.zeros(4), ONE, SCENE), "estimates"),
        (lambda: splat(mx.zeros((4, 3)), mx.zeros(4), mx.zeros(1), SCENE), "used"),
        (lambda: pack_bits(mx.zeros(33), mx.zeros(1)), "values"),
        (lambda: pack_bits(mx.zeros(32), mx.array(0.5)), "threshold"),
        (lambda: random_points(mx.zeros(3, mx.uint32), 5, SCENE), "key"),
        (lambda: refreshed(np.zeros(4), np.zeros(3), np.zeros(4), np.zeros(4), 1), "since_visible"),
        (lambda: refreshed(np.zeros(4), np.zeros(4), np.zeros(4), np.zeros(3), 1), "is_visible"),
    ],
)
def test_a_wrong_shape_or_type_is_refused_by_name(call, name):
    with pytest.raises(InputError, match=f"^{name} "):
        call()
