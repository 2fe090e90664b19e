"""Infinities and NaN cause no undefined behavior, for example when converted to integers."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.backend import choose_device, using
from nerfmac.backend.metal_text import on_metal
from nerfmac.ops.adam import Step, adam_step, most_first, pack_moments
from nerfmac.ops.hash_encode import HashLevels, hash_encode
from nerfmac.ops.networks import networks
from nerfmac.ops.networks_shape import NetworksShape
from tests.metal.trials import COUNT, Trial

pytestmark = pytest.mark.slow

LEVELS = HashLevels(2, 4, 3, 1.5)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_a_gradient_in_fixed_point_becomes_nan_in_its_level(executor, bad):
    choose_device("cpu")
    positions = mx.random.uniform(shape=(9, 3), key=mx.random.key(2))
    slopes = mx.where(mx.arange(9)[:, None] == 4, mx.array([bad, 1.0, -2.0, 0.5]), 0.25)
    table = mx.zeros((LEVELS.entries, 2))

    def encode(table: mx.array) -> mx.array:
        return hash_encode(positions, table, LEVELS)

    with on_metal(executor), using(hash_encode_gradient="fixed"):
        got = np.array(mx.vjp(encode, [table], [slopes.astype(mx.float16)])[1][0])
    end = LEVELS.shapes[1][1]
    assert np.isnan(got[:end]).all()
    assert np.isfinite(got[end:]).all()
    assert got[end:].any()


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_skipped_step_changes_no_bit_of_a_parameter_or_a_moment(executor, bad):
    choose_device("cpu")
    keys = mx.random.split(mx.random.key(3), 3)
    parameters, first, second = (mx.random.normal((40,), key=key) for key in keys)
    most = most_first(0.9, 0.99)
    step = mx.array(Step(0.9, 0.99, size=0.01, epsilon=1e-8, l2=1e-3, most=most))
    moments = pack_moments(first, mx.square(second), most)
    gradient = mx.where(mx.arange(40) == 7, bad, 1.0)
    with on_metal(executor):
        after = adam_step(parameters, moments, gradient, mx.array([0.0]), step)
        mx.eval(after)
    for got, want in zip(after, (parameters, moments), strict=True):
        assert np.array_equal(np.array(got), np.array(want))


def test_a_gradient_beyond_half_precision_becomes_its_largest_number(executor):
    choose_device("cpu")
    shape, rows = NetworksShape(16, 16, 1, 1), 20
    keys = mx.random.split(mx.random.key(4), 3)
    features = mx.random.normal((rows, 16), key=keys[0]).astype(mx.float16)
    density = mx.random.normal((shape.density.weights,), key=keys[1])
    color = mx.random.normal((shape.color.weights,), key=keys[2])
    basis, ray, used = mx.ones((rows, 16)), mx.arange(rows), mx.array([rows])

    def run(features: mx.array) -> list[mx.array]:
        return list(networks(features, basis, ray, used, density, color, shape))

    slopes = [mx.where(mx.arange(rows) == 3, 9e6, 0.0), mx.zeros((rows, 3))]
    with on_metal(executor):
        got = np.array(mx.vjp(run, [features], slopes)[1][0])
    assert got.dtype == np.float16
    assert np.isfinite(got).all()
    assert np.abs(got[3]).max() == 65504
    assert not got[np.arange(rows) != 3].any()


@pytest.mark.parametrize("name", ["min", "max"])
@pytest.mark.parametrize("operands", ["in[i], nan", "nan, in[i]"])
def test_the_fast_minimum_and_maximum_of_nan_are_either_operand(executor, name, operands):
    body = f"const float nan = as_type<float>(0x7fc00000u);\nout[i] = {name}({operands});"
    got = Trial(body)(executor)
    assert 8 < np.isnan(got).sum() < 56
    assert np.array_equal(got[~np.isnan(got)], COUNT[~np.isnan(got)])
    precise = Trial(body.replace(f"{name}(", f"precise::{name}("))(executor)
    assert np.array_equal(precise, COUNT)
