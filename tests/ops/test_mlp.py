"""The networks, against matrix products in NumPy's float64."""

from contextlib import nullcontext
from itertools import pairwise

import mlx.core as mx
import numpy as np
import pytest
from numerics import assert_matches

from nerfmac.backend import choose_device, kernels_disabled
from nerfmac.checks import InputError
from nerfmac.ops.mlp import MlpShape, mlp

ROUNDOFF = 2.0**-24
SHAPES = [MlpShape(16, 32, 1, 16), MlpShape(32, 64, 2, 16), MlpShape(48, 16, 3, 32)]


@pytest.fixture(autouse=True, params=["kernel", "reference"])
def run_by(request):
    choose_device("cpu")
    with kernels_disabled() if request.param == "reference" else nullcontext():
        yield request.param


def drawn(shape: MlpShape, rows: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(rows)
    weights = random.normal(size=shape.weights) / 4.0
    return (
        random.normal(size=(rows, shape.inputs)).astype(np.float32),
        weights.astype(np.float32),
    )


def evaluate(inputs: np.ndarray, weights: np.ndarray, shape: MlpShape) -> np.ndarray:
    """Layer by layer, cutting the matrices off the front of the flat weights."""
    widths = [shape.inputs] + [shape.hidden] * shape.hidden_layers + [shape.outputs]
    for layer, (rows, columns) in enumerate(pairwise(widths)):
        matrix, weights = weights[: rows * columns], weights[rows * columns :]
        inputs = inputs @ matrix.reshape(rows, columns)
        if layer < shape.hidden_layers:
            inputs = np.maximum(inputs, 0.0)
    assert not weights.size
    return inputs


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("rows", [1, 31, 32, 33, 200])
def test_values_are_the_matrix_products(shape, rows):
    inputs, weights = drawn(shape, rows)
    want = evaluate(inputs.astype(np.float64), weights.astype(np.float64), shape)
    got = mlp(mx.array(inputs), mx.array(weights), shape)
    assert_matches(got, want, rel=4 * 64 * ROUNDOFF, name="outputs")


def test_gradients_are_the_finite_differences_in_both_arguments():
    shape, step = MlpShape(16, 16, 2, 32), 1e-6
    inputs, weights = drawn(shape, 5)  # rows of a part of a tile
    mix = np.random.default_rng(3).normal(size=(5, shape.outputs))
    x, w = inputs.astype(np.float64), weights.astype(np.float64)

    def combined(inputs: mx.array, weights: mx.array) -> mx.array:
        return (mlp(inputs, weights, shape) * mx.array(mix, mx.float32)).sum()

    d_x, d_w = mx.grad(combined, argnums=(0, 1))(mx.array(inputs), mx.array(weights))
    for name, got, values in (("inputs", d_x, x), ("weights", d_w, w)):
        want = np.zeros_like(values)
        for index in np.ndindex(values.shape):
            before = values[index]
            values[index] = before + step
            ahead = (evaluate(x, w, shape) * mix).sum()
            values[index] = before - step
            behind = (evaluate(x, w, shape) * mix).sum()
            values[index] = before
            want[index] = (ahead - behind) / (2 * step)
        assert_matches(got, want, rel=16 * 32 * ROUNDOFF, name=f"d {name}")


@pytest.mark.parametrize("rows", [33, 1100])
def test_rows_do_not_see_each_other(rows):
    shape = SHAPES[0]
    inputs, weights = drawn(shape, rows)
    order = np.random.default_rng(1).permutation(rows)
    straight = np.array(mlp(mx.array(inputs), mx.array(weights), shape))
    shuffled = np.array(mlp(mx.array(inputs[order]), mx.array(weights), shape))
    assert_matches(shuffled, straight[order], rel=4 * 64 * ROUNDOFF, name="outputs")


@pytest.mark.parametrize("rows", [45, 2100])
def test_rows_without_a_gradient_leave_the_weights_to_the_others(rows):
    # More tiles than groups in the larger one; whole tiles and parts of them without a gradient.
    shape = SHAPES[1]
    inputs, weights = drawn(shape, rows)
    weigh = np.zeros((rows, 1), np.float32)
    chosen = np.arange(3, 40)
    weigh[chosen] = np.random.default_rng(2).normal(size=(37, 1))

    def loss(inputs: mx.array, weights: mx.array, weigh: mx.array) -> mx.array:
        return (mx.square(mlp(inputs, weights, shape)) * weigh).sum()

    slopes = mx.grad(loss, argnums=(0, 1))
    d_inputs, d_weights = slopes(mx.array(inputs), mx.array(weights), mx.array(weigh))
    alone = slopes(mx.array(inputs[chosen]), mx.array(weights), mx.array(weigh[chosen]))
    rel = 16 * 64 * ROUNDOFF
    assert_matches(d_weights, alone[1], rel=rel, name="d weights")
    assert_matches(np.array(d_inputs)[chosen], alone[0], rel=rel, name="d inputs")
    assert not np.delete(np.array(d_inputs), chosen, axis=0).any()


@pytest.mark.parametrize("run_by", ["kernel"], indirect=True)  # the C++ of the other takes long
def test_a_compiled_gradient_equals_the_plain_one():
    shape = SHAPES[1]
    inputs, weights = (mx.array(each) for each in drawn(shape, 70))
    plain = mx.grad(lambda x, w: mx.square(mlp(x, w, shape)).sum(), argnums=(0, 1))
    compiled = mx.compile(plain)
    for scale in (1.0, 0.5):  # the second call runs what the first one traced
        got, want = compiled(inputs * scale, weights), plain(inputs * scale, weights)
        for name, one, other in zip(("inputs", "weights"), got, want, strict=True):
            assert_matches(one, other, rel=4 * 64 * ROUNDOFF, name=f"d {name}")


def test_no_rows_give_no_rows():
    assert mlp(mx.zeros((0, 16)), mx.zeros(SHAPES[0].weights), SHAPES[0]).shape == (0, 16)


def test_the_flat_weights_split_into_the_layers_matrices():
    shape = MlpShape(16, 32, 2, 48)
    flat = mx.arange(shape.weights)
    matrices = shape.split(flat)
    assert [matrix.shape for matrix in matrices] == [(16, 32), (32, 32), (32, 48)]
    assert mx.concatenate([m.reshape(-1) for m in matrices]).tolist() == flat.tolist()


@pytest.mark.parametrize("name", ["inputs", "hidden", "outputs"])
@pytest.mark.parametrize("width", [0, -16, 8, 20])
def test_a_width_that_is_no_multiple_of_sixteen_is_refused_by_name(name, width):
    widths = {"inputs": 16, "hidden": 16, "hidden_layers": 1, "outputs": 16, name: width}
    with pytest.raises(InputError, match=f"^{name} is {width}"):
        MlpShape(**widths)


@pytest.mark.parametrize("layers", [0, -1, 1.5])
def test_a_network_without_a_hidden_layer_is_refused(layers):
    with pytest.raises(InputError, match=r"^hidden_layers is"):
        MlpShape(16, 16, layers, 16)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("inputs", lambda a: a[:, :15]),
        ("inputs", lambda a: a[0]),
        ("inputs", lambda a: a.astype(mx.float16)),
        ("weights", lambda a: a[:-1]),
        ("weights", lambda a: a[None]),
        ("weights", lambda a: a.astype(mx.float16)),
    ],
)
def test_a_wrong_shape_or_type_is_refused_by_name(name, change):
    inputs, weights = (mx.array(each) for each in drawn(SHAPES[0], 4))
    arguments = {"inputs": inputs, "weights": weights}
    arguments[name] = change(arguments[name])
    with pytest.raises(InputError, match=f"^{name} "):
        mlp(**arguments, shape=SHAPES[0])
