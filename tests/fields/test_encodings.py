"""Encodings of frequencies and levels, and the parameters of the networks."""

from math import sqrt

import mlx.core as mx
import numpy as np
import pytest
from numerics import assert_matches

from nerfmac.fields.encodings import Frequencies
from nerfmac.ops.networks import MlpShape, uniform_by_layer

pytestmark = pytest.mark.usefixtures("on_the_cpu")

ROUNDOFF = 2.0**-24
EDGES = np.array([[1.0, -1.0, 0.0], [-1.0, 0.5, 2.0**-12]])


def points() -> np.ndarray:
    drawn = np.random.default_rng(5).uniform(-1.0, 1.0, (33, 3))
    return np.concatenate([EDGES, drawn]).astype(np.float32).astype(np.float64)


def encoded(points: np.ndarray, count: int) -> np.ndarray:
    """Equation 4 with the points in front, in float64."""
    columns = [points]
    for k in range(count):
        columns += [np.sin(2.0**k * np.pi * points), np.cos(2.0**k * np.pi * points)]
    return np.concatenate(columns, axis=1)


@pytest.mark.parametrize("count", [1, 4, 10])
def test_the_encoding_is_the_points_and_then_sine_and_cosine_of_each_frequency(count):
    encoding = Frequencies(count)
    got = encoding(mx.array(points(), mx.float32))
    assert got.shape == (35, encoding.outputs)
    # A sine's argument is at most pi 2^(count - 1), and rounded.
    rel = 2 * np.pi * 2.0 ** (count - 1) * ROUNDOFF
    assert_matches(got, encoded(points(), count), rel=rel, name="features")


def test_the_gradient_is_that_of_the_formula():
    weight = np.random.default_rng(6).normal(size=(35, Frequencies(4).outputs))

    def loss(points: mx.array) -> mx.array:
        return (Frequencies(4)(points) * mx.array(weight, mx.float32)).sum()

    got = mx.grad(loss)(mx.array(points(), mx.float32))
    want = np.empty((35, 3))
    for axis in range(3):
        step = 1e-6 * np.eye(3)[axis]
        change = encoded(points() + step, 4) - encoded(points() - step, 4)
        want[:, axis] = (change * weight).sum(axis=1) / 2e-6
    assert_matches(got, want, rel=64 * np.pi * 8 * ROUNDOFF, name="gradient")


def test_the_flat_weights_split_into_the_layers_matrices():
    shape = MlpShape(16, 32, 2, 48)
    flat = mx.arange(shape.weights)
    matrices = shape.split(flat)
    assert [matrix.shape for matrix in matrices] == [(16, 32), (32, 32), (32, 48)]
    assert mx.concatenate([m.reshape(-1) for m in matrices]).tolist() == flat.tolist()


def test_fresh_weights_are_uniform_within_glorots_bound_of_their_layer():
    shape = MlpShape(16, 64, 3, 32)
    weights = uniform_by_layer(shape, mx.random.key(7))
    assert weights.dtype == mx.float32
    for matrix in shape.split(weights):
        rows, columns = matrix.shape
        bound, values = sqrt(6 / (rows + columns)), np.array(matrix).ravel()
        assert np.abs(values).max() <= bound
        assert np.abs(values).max() > 0.98 * bound
        assert values.std() == pytest.approx(bound / sqrt(3), rel=5 / sqrt(values.size))
        assert abs(values.mean()) < 5 * bound / sqrt(3 * values.size)
    _, second, third, _ = (np.array(matrix).ravel() for matrix in shape.split(weights))
    assert abs(np.corrcoef(second, third)[0, 1]) < 5 / sqrt(second.size)
