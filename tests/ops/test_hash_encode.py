"""The hash encoding, against tiny-cuda-nn's rules written on their own in NumPy's float64."""

from itertools import product
from math import ceil

import mlx.core as mx
import numpy as np
import pytest
from numerics import assert_matches

from nerfmac.ops.hash_encode import HashLevels, hash_encode

pytestmark = pytest.mark.usefixtures("run_by")

ROUNDOFF = 2.0**-24
PRIMES = (1, 2654435761, 805459861)
MIXED = HashLevels(levels=5, log2_entries=10, coarsest=3, growth=1.7)  # 2 levels dense, 3 hashed


def entries_of(levels: HashLevels) -> list[tuple[float, int, int, int]]:
    """Scale, vertices along an axis, first entry and entries of each level."""
    rows, first = [], 0
    for level in range(levels.levels):
        scale = levels.coarsest * levels.growth**level - 1.0
        vertices = ceil(scale) + 1
        entries = min(ceil(vertices**3 / 8) * 8, 2**levels.log2_entries)
        rows.append((scale, vertices, first, entries))
        first += entries
    return rows


def encode(positions: np.ndarray, table: np.ndarray, levels: HashLevels) -> np.ndarray:
    """Follow tiny-cuda-nn's grid, stride by stride."""
    encoded = []
    for scale, vertices, first, entries in entries_of(levels):
        place = positions * scale + 0.5
        lowest = np.floor(place).astype(np.int64)
        fraction = place - lowest
        total = np.zeros((len(positions), table.shape[1]))
        for corner in product((0, 1), repeat=3):
            vertex, index, stride = lowest + corner, np.zeros(len(positions), np.int64), 1
            for axis in range(3):
                if stride > entries:
                    break
                index, stride = index + vertex[:, axis] * stride, stride * vertices
            if stride > entries:
                hashed = [vertex[:, axis] * PRIMES[axis] % 2**32 for axis in range(3)]
                index = hashed[0] ^ hashed[1] ^ hashed[2]
            weight = np.where(corner, fraction, 1.0 - fraction).prod(axis=1)
            total += weight[:, None] * table[first + index % entries]
        encoded.append(total)
    return np.concatenate(encoded, axis=1)


def drawn(levels: HashLevels, points: int, features: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(points)
    table = random.normal(size=(levels.entries, features)).astype(np.float32)
    return random.uniform(0.0, 1.0, (points, 3)).astype(np.float32), table


def tolerance(levels: HashLevels) -> float:
    """A place is known to a roundoff of the finest level's cells; eight vertices, three axes."""
    return 24 * ROUNDOFF * levels.coarsest * levels.growth ** (levels.levels - 1)


@pytest.mark.parametrize(
    ("levels", "features"),
    [
        (MIXED, 2),
        (HashLevels(8, 12, 16, 1.9), 4),
        (HashLevels(3, 19, 5, 2.0), 1),  # all dense
        (HashLevels(1, 8, 16, 2.0), 3),  # hashed from the start
    ],
    ids=["mixed", "eight", "dense", "hashed"],
)
def test_values_follow_tiny_cuda_nns_rules(levels, features):
    positions, table = drawn(levels, 403, features)
    positions[:4] = [[0, 0, 0], [1, 1, 1], [0, 1, 0.5], [1, 0.25, 0]]
    got = hash_encode(mx.array(positions), mx.array(table), levels)
    want = encode(positions.astype(np.float64), table.astype(np.float64), levels)
    assert_matches(got, want, rel=tolerance(levels), name="encoded")


@pytest.mark.parametrize("levels", [MIXED, HashLevels(16, 14, 16, 1.38)], ids=["few", "many"])
def test_levels_follow_each_other_in_the_table(levels):
    rows = entries_of(levels)
    assert levels.shapes == tuple((v, first, entries) for _, v, first, entries in rows)
    assert levels.entries == sum(entries for *_, entries in rows)
    assert np.allclose(levels.scales, [scale for scale, *_ in rows], rtol=1e-12)
    is_hashed = [vertices**3 > entries for _, vertices, _, entries in rows]
    assert [levels.is_hashed(level) for level in range(levels.levels)] == is_hashed
    assert set(is_hashed) == {False, True}


def test_gradients_are_the_finite_differences_in_both_arguments():
    levels = HashLevels(levels=3, log2_entries=6, coarsest=3, growth=1.7)
    positions, table = drawn(levels, 40, 2)
    # A kink is no place for finite differences.
    places = [positions.astype(np.float64) * scale + 0.5 for scale, *_ in entries_of(levels)]
    smooth = np.all([np.abs(p - np.round(p)).min(axis=1) > 1e-3 for p in places], axis=0)
    positions = positions[smooth]
    assert len(positions) > 20
    mix = np.random.default_rng(1).normal(size=(len(positions), 6))
    x, t, step = positions.astype(np.float64), table.astype(np.float64), 1e-5

    def loss(x: np.ndarray, t: np.ndarray) -> float:
        return float((encode(x, t, levels) * mix).sum())

    def differences(which: int) -> np.ndarray:
        slopes = np.zeros_like((x, t)[which])
        for index in np.ndindex(slopes.shape):
            shifted = [x.copy(), t.copy()], [x.copy(), t.copy()]
            shifted[0][which][index] -= step
            shifted[1][which][index] += step
            slopes[index] = (loss(*shifted[1]) - loss(*shifted[0])) / (2 * step)
        return slopes

    def combined(x: mx.array, t: mx.array) -> mx.array:
        return (hash_encode(x, t, levels) * mx.array(mix, mx.float32)).sum()

    d_x, d_t = mx.grad(combined, argnums=(0, 1))(mx.array(positions), mx.array(table))
    # Eight vertices of 40 points may share one entry.
    assert_matches(d_t, differences(1), rel=40 * tolerance(levels), name="d table")
    assert_matches(d_x, differences(0), rel=40 * tolerance(levels), name="d positions")


def test_a_table_constant_within_each_level_encodes_to_the_constants():
    positions, table = drawn(MIXED, 100, 2)
    want = np.zeros((100, 10))
    for level, (_, _, first, entries) in enumerate(entries_of(MIXED)):
        table[first : first + entries] = constants = [level + 1.5, -2.0 * level - 1]
        want[:, 2 * level : 2 * level + 2] = constants
    got = hash_encode(mx.array(positions), mx.array(table), MIXED)
    assert_matches(got, want, rel=16 * ROUNDOFF, name="encoded")

    def total(positions: mx.array) -> mx.array:
        return hash_encode(positions, mx.array(table), MIXED).sum()

    slope = np.array(mx.grad(total)(mx.array(positions)))
    assert np.abs(slope).max() < 16 * ROUNDOFF * 3 * 25 * np.abs(table).sum(axis=1).max()


def dense(cells: int) -> tuple[HashLevels, np.ndarray]:
    """One dense level, and its vertices (entries, 3) in the order of their entries."""
    z, y, x = np.meshgrid(*[np.arange(cells)] * 3, indexing="ij")
    return HashLevels(1, 12, cells, 2.0), np.stack([x, y, z], axis=-1).reshape(-1, 3)


def test_a_dense_table_linear_in_its_vertices_encodes_the_linear_function():
    levels, vertices = dense(9)
    slope, constant = np.array([[1.0, -3.0], [0.5, 7.0], [-2.0, 0.25]]), np.array([0.75, -4.0])
    table = np.zeros((levels.entries, 2), np.float32)
    table[: len(vertices)] = (vertices - 0.5) / 8.0 @ slope + constant
    # Half a cell short of the upper border, where tiny-cuda-nn's index wraps around.
    positions, _ = drawn(levels, 200, 2)
    positions *= np.float32(7.5 / 8.0)
    got = hash_encode(mx.array(positions), mx.array(table), levels)
    assert_matches(got, positions @ slope + constant, rel=tolerance(levels), name="encoded")


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_matter_along_one_axis_is_found_on_that_axis(axis):
    levels, vertices = dense(9)
    table = np.zeros((levels.entries, 1), np.float32)
    table[: len(vertices), 0] = vertices[:, axis] == 6
    positions = np.full((3, 3), 0.2, np.float32)
    np.fill_diagonal(positions, 5.5 / 8.0)  # point i is on the sixth vertex of axis i
    encoded = hash_encode(mx.array(positions), mx.array(table), levels)[:, 0].tolist()
    assert encoded == pytest.approx([float(i == axis) for i in range(3)], abs=tolerance(levels))


@pytest.mark.parametrize("run_by", ["kernel"], indirect=True)  # the C++ of the other takes long
def test_a_compiled_gradient_equals_the_plain_one():
    positions, table = (mx.array(each) for each in drawn(MIXED, 70, 2))

    def loss(positions: mx.array, table: mx.array) -> mx.array:
        return mx.square(hash_encode(positions, table, MIXED)).sum()

    plain = mx.grad(loss, argnums=(0, 1))
    compiled = mx.compile(plain)
    for shift in (0.0, 0.1):  # the second call reuses the trace of the first
        want, got = plain(positions * 0.9 + shift, table), compiled(positions * 0.9 + shift, table)
        for name, one, other in zip(("positions", "table"), got, want, strict=True):
            assert_matches(one, other, rel=40 * tolerance(MIXED), name=f"d {name}")


@pytest.mark.parametrize("rubbish", [np.nan, 1e30, -7.3])
@pytest.mark.parametrize("used", [0, 1, 23, 70])
def test_points_past_the_used_ones_do_not_matter_and_get_no_gradient(used, rubbish):
    positions, table = drawn(MIXED, 70, 2)
    cotangent = np.random.default_rng(4).normal(size=(70, 10)).astype(np.float32)
    dirty = positions.copy()
    dirty[used:] = rubbish

    def run(positions: np.ndarray, points: int) -> tuple[mx.array, mx.array, mx.array]:
        def encode(positions: mx.array, table: mx.array) -> mx.array:
            return hash_encode(positions, table, MIXED, mx.array([used]))

        arguments = [mx.array(positions[:points]), mx.array(table)]
        (encoded,), slopes = mx.vjp(encode, arguments, [mx.array(cotangent[:points])])
        assert not np.array(slopes[0])[used:].any()
        return encoded[:used], slopes[0][:used], slopes[1]

    for got, want in zip(run(dirty, 70), run(positions, used), strict=True):
        assert got.shape == want.shape
        assert (np.array(got) == np.array(want)).all()
        assert np.array(want).any() == (used > 0)
