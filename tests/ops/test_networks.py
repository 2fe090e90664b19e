"""The two stacked networks and their activations, against NumPy's float64."""

import mlx.core as mx
import numpy as np
import pytest
from numerics import assert_matches

from nerfmac.backend import choose_device, device, using
from nerfmac.ops.networks import (
    NetworksShape,
    gradient_padding,
    networks,
    networks_density,
    truncated_exp,
)
from tests.ops.networks_oracle import RESULTS, TRAINED, Values, differences, drawn, evaluate, mixes

pytestmark = pytest.mark.usefixtures("run_by")

ROUNDOFF = 2.0**-24
SMALL = NetworksShape(16, 16, 2, 2)
TINY = NetworksShape(16, 32, 1, 1)
THIN = NetworksShape(16, 32, 1, 1, density_bias=2)
SHAPES = [
    THIN,
    SMALL,
    TINY,
    NetworksShape(48, 64, 3, 4),
    # Three and five vectors of AVX-512 in a row, whose numbers do not divide the rows of a tile.
    NetworksShape(48, 32, 1, 1),
    NetworksShape(80, 32, 1, 1),
    NetworksShape(128, 128, 1, 2),
    NetworksShape(32, 16, 4, 3),
]


def on_device(values: Values) -> dict[str, mx.array]:
    return {
        name: mx.array(each, mx.int32 if name in ("ray", "used") else mx.float32)
        for name, each in values.items()
    }


def run(values: Values, shape: NetworksShape) -> list[np.ndarray]:
    return [np.array(each) for each in networks(**on_device(values), shape=shape)]


def slopes(values: Values, shape: NetworksShape, mixed: list[np.ndarray]) -> Values:
    device = on_device(values)

    def results(*trained: mx.array) -> tuple[mx.array, mx.array]:
        return networks(**device | dict(zip(TRAINED, trained, strict=True)), shape=shape)

    given = [device[name] for name in TRAINED]
    _, got = mx.vjp(results, given, [mx.array(each, mx.float32) for each in mixed])
    return dict(zip(TRAINED, map(np.array, got), strict=True))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("slots", [1, 15, 16, 17, 33, 500])
def test_density_and_color_are_the_stacked_networks(shape, slots):
    for per_ray in (1, 7):
        values = drawn(shape, slots, per_ray)
        want = evaluate(values, shape)
        for name, one, other in zip(RESULTS, run(values, shape), want, strict=True):
            assert_matches(one, other, rel=64 * ROUNDOFF, name=name)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("points", [1, 16, 33, 500])
def test_density_alone_is_the_first_networks(shape, points):
    device = on_device(values := drawn(shape, points))
    alone = networks_density(*(device[name] for name in TRAINED), shape)
    assert_matches(alone, evaluate(values, shape)[0], rel=64 * ROUNDOFF, name="density")


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gradients_are_the_finite_differences_in_features_and_both_weights(shape):
    slots = 21  # a tile and a part of one
    got = slopes(drawn(shape, slots), shape, mixes(slots))
    for name, (chosen, want) in differences(shape, slots).items():
        assert np.count_nonzero(want) > 100
        one = got[name].reshape(-1)[chosen]
        assert_matches(one, want, rel=64 * ROUNDOFF, name=f"d {name}")


@pytest.mark.parametrize("slots", [33, 1100])  # the larger: more tiles than partial sums
def test_the_weights_gradient_is_the_sum_of_the_rows(slots):
    values, mixed = drawn(SMALL, slots), mixes(slots)
    whole, total = slopes(values, SMALL, mixed), {}
    for part in np.array_split(np.arange(slots), 5):
        cut = {"features": values["features"][part], "ray": values["ray"][part]}
        cut["used"] = np.array([part.size])
        for name, each in slopes(values | cut, SMALL, [m[part] for m in mixed]).items():
            total[name] = [*total.get(name, []), each.astype(np.float64)]
    for name in TRAINED:
        want = np.concatenate(total[name]) if name == "features" else sum(total[name])
        assert_matches(whole[name], want, rel=64 * ROUNDOFF, name=f"d {name}")


@pytest.mark.parametrize("row", [0, 15, 16, 37])
def test_rows_do_not_see_each_other(row):
    values, mixed = drawn(SMALL, 38), mixes(38)
    other = {name: each.copy() for name, each in values.items()}
    other["features"][row] *= -2.0
    other["ray"][row] += 1
    before, after = (
        [*run(each, SMALL), slopes(each, SMALL, mixed)["features"]] for each in (values, other)
    )
    for name, one, two in zip((*RESULTS, "d features"), before, after, strict=True):
        assert (one[row] != two[row]).any(), name
        assert (np.delete(one, row, axis=0) == np.delete(two, row, axis=0)).all(), name


@pytest.mark.parametrize("rubbish", [np.nan, np.inf, 3e38])
@pytest.mark.parametrize("used", [0, 1, 16, 23, 64])
def test_rows_past_the_used_ones_do_not_matter_and_get_no_gradient(used, rubbish, run_by):
    clean = drawn(SMALL, 70) | {"used": np.array([used])}
    dirty = {name: each.copy() for name, each in clean.items()}
    dirty["features"][used:] = rubbish
    dirty["ray"][used:] = np.where(np.arange(70 - used) % 2, 2**30, -5)
    mixed, soiled = mixes(70), mixes(70)
    for each in soiled:
        each[used:] = rubbish if run_by == "kernel" else 1e30  # a reference multiplies by zero
    for name, got, want in zip(RESULTS, run(dirty, SMALL), run(clean, SMALL), strict=True):
        assert got.shape == want.shape
        assert (got[:used] == want[:used]).all(), name
    d_dirty, d_clean = slopes(dirty, SMALL, soiled), slopes(clean, SMALL, mixed)
    for name in TRAINED:
        assert (d_dirty[name] == d_clean[name]).all(), name
        assert d_clean[name].any() == (used > 0), name
    assert not d_clean["features"][used:].any()


@pytest.mark.parametrize("result", [0, 1, 2, 3])
def test_rows_without_a_gradient_leave_the_weights_to_the_others(result):
    # Whole tiles and parts of them without one; the others have it in a single result.
    slots, chosen = 1100, np.array([3, 39, 40, 800])
    values, mixed = drawn(SMALL, slots), [np.zeros(slots), np.zeros((slots, 3))]
    mixed[min(result, 1)].reshape(slots, -1)[chosen, max(result - 1, 0)] = [1.0, -2.0, 0.5, 3.0]
    got = slopes(values, SMALL, mixed)
    cut = {"features": values["features"][chosen], "ray": values["ray"][chosen]}
    alone = slopes(values | cut | {"used": np.array([4])}, SMALL, [m[chosen] for m in mixed])
    assert alone["features"].any(axis=1).all()
    assert not np.delete(got["features"], chosen, axis=0).any()
    got["features"] = got["features"][chosen]
    for name in TRAINED[: 2 if result == 0 else 3]:
        assert_matches(got[name], alone[name], rel=64 * ROUNDOFF, name=f"d {name}")
    assert got["color_weights"].any() == (result > 0)


def test_the_density_and_its_slope_end_at_e_to_the_fifteenth():
    logs = np.array([-1000.0, -80.0, -15.5, -14.5, -1.0, 2.5, 14.5, 15.5, 80.0, 1000.0])
    values, weigh = drawn(TINY, logs.size), np.arange(1.0, 11.0)
    values["color_weights"][:] = 0.0
    first, last = np.zeros((16, 32)), np.zeros((32, 16))
    first[3, 7], last[7, 0] = 1.0, 1.0  # the logarithm is a feature less another
    first[5, 9], last[9, 0] = 1.0, -1.0
    values["density_weights"] = np.concatenate([first.ravel(), last.ravel()])
    values["features"][:, 3], values["features"][:, 5] = np.maximum(logs, 0), np.maximum(-logs, 0)
    density = np.exp(np.minimum(logs, 15))
    assert run(values, TINY)[0] == pytest.approx(density, rel=64 * ROUNDOFF, abs=1e-34)
    d = slopes(values, TINY, [weigh, np.zeros((logs.size, 3))])["features"]
    want = weigh * np.exp(np.clip(logs, -15, 15))
    assert d[:, 3] - d[:, 5] == pytest.approx(want, rel=64 * ROUNDOFF)
    assert not np.delete(d, (3, 5), axis=1).any()


def test_truncated_exp_is_exp_whose_slope_is_that_at_the_nearest_point_within_fifteen():
    x = np.array([-100.0, -20.0, -15.0, -1.0, 0.0, 2.5, 15.0, 20.0, 80.0])
    on_mlx, weigh = mx.array(x, mx.float32), np.arange(1.0, 10.0)
    want = np.exp(np.minimum(x, 15))
    assert np.array(truncated_exp(on_mlx)) == pytest.approx(want, rel=128 * ROUNDOFF)
    slope = mx.grad(lambda x: (truncated_exp(x) * mx.array(weigh, mx.float32)).sum())
    want = weigh * np.exp(np.clip(x, -15, 15))
    assert np.array(slope(on_mlx)) == pytest.approx(want, rel=64 * ROUNDOFF)


def test_results_repeat_bit_for_bit():
    values, mixed = drawn(SMALL, 1100), mixes(1100)
    one, two = ([*run(values, SMALL), *slopes(values, SMALL, mixed).values()] for _ in range(2))
    for first, second in zip(one, two, strict=True):
        assert first.tobytes() == second.tobytes()


@pytest.mark.parametrize("run_by", ["kernel"], indirect=True)  # the C++ of the other takes long
def test_a_compiled_gradient_equals_the_plain_one():
    device = on_device(drawn(SMALL, 70))

    def loss(features: mx.array, density_weights: mx.array) -> mx.array:
        trained = {"features": features, "density_weights": density_weights}
        density, color = networks(**device | trained, shape=SMALL)
        return (density * color[:, 1]).sum()

    plain = mx.grad(loss, argnums=(0, 1))
    compiled = mx.compile(plain)
    for scale in (1.0, 0.5):  # the second call reuses the trace of the first
        given = scale * device["features"], device["density_weights"]
        for name, one, other in zip(TRAINED, compiled(*given), plain(*given), strict=False):
            assert_matches(one, other, rel=64 * ROUNDOFF, name=f"d {name}")


@pytest.mark.parametrize(
    ("where", "way", "width", "padding"),
    [
        ("metal", "padded", 64, 8),
        ("metal", "padded", 128, 0),  # the tiles alone fill the 32 KB
        ("cuda", "padded", 128, 8),
        ("cuda", "close", 64, 0),
        ("cpu", "padded", 64, 0),
    ],
)
def test_a_tiles_rows_have_room_between_them_where_a_threadgroup_has(where, way, width, padding):
    with device.pretended(where), using(networks_gradient_rows=way):
        assert gradient_padding(NetworksShape(32, width, 1, 2)) == padding


@pytest.mark.cuda
def test_features_gradients_too_large_for_half_precision_become_the_largest_half(run_by):
    if run_by == "reference":
        pytest.skip("the reference computes in float32")
    choose_device("cuda")
    values, mixed = drawn(SMALL, 100), mixes(100)
    mixed[0][7] = 1e9
    got = slopes(values, SMALL, mixed)
    assert np.isfinite(got["features"]).all()
    assert np.abs(got["features"][7]).max() == 65504.0
    # The gradient is also too large inside the networks, and the step is skipped.
    assert not np.isfinite(got["density_weights"]).all()


SMALLEST = 1.2e-38  # of the normal numbers
SHAPE = NetworksShape(16, 16, 1, 1)
SUMS = np.float32([*np.linspace(-87.3, 88.0, 1001), -1e30, -110, -104, 0, 89, 1e30, np.nan])


def activated(sums: np.ndarray) -> list[np.ndarray]:
    """Density and colors of samples with these output sums of both networks."""
    features = np.zeros((len(sums), 16), np.float32)
    features[:, 3], features[:, 8] = np.maximum(sums, 0), np.maximum(-sums, 0)
    last = np.zeros((16, 16), np.float32)
    last[3], last[8] = 1.0, -1.0  # every output is the one less the other
    density = np.concatenate([np.eye(16, dtype=np.float32).ravel(), last.ravel()])
    # The first output of the embedding passes the sum on to the color network.
    first = np.zeros((32, 16), np.float32)
    first[0, 3], first[0, 8] = 1.0, -1.0
    color = np.concatenate([first.ravel(), last.ravel()])
    ray, used = mx.zeros(len(sums), mx.int32), mx.array([len(sums)])
    arrays = mx.array(features), mx.zeros((1, 16)), ray, used, mx.array(density), mx.array(color)
    return [np.array(each) for each in networks(*arrays, SHAPE)]


def test_the_density_is_exp_from_nothing_to_its_limit_and_nan_stays(run_by):
    with np.errstate(under="ignore"):
        want = np.exp(np.minimum(SUMS.astype(np.float64), 15)).astype(np.float32)
    # The exp function of MLX is less precise than the kernel, and flushes denormals to zero.
    rtol, atol = (4 * ROUNDOFF, 2e-45) if run_by == "kernel" else (64 * ROUNDOFF, SMALLEST)
    np.testing.assert_allclose(activated(SUMS)[0], want, rtol=rtol, atol=atol)


def test_colors_are_sigmoids_and_nan_stays(run_by):
    with np.errstate(over="ignore"):
        want = 1.0 / (1.0 + np.exp(-SUMS.astype(np.float64)))
    rtol = (6 if run_by == "kernel" else 64) * ROUNDOFF
    for channel in activated(SUMS)[1].T:
        np.testing.assert_allclose(channel, want, rtol=rtol, atol=4 * SMALLEST)
