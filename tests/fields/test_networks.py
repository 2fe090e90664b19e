"""Parameters of the density and color networks: widths, weight layout, and initialization."""

from math import sqrt

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.fields.field import shapes_of
from nerfmac.fields.networks import StackedMlps, uniform_by_layer
from nerfmac.ops.networks_shape import MlpShape, NetworksShape

pytestmark = pytest.mark.usefixtures("on_the_cpu")

SHAPE = NetworksShape(16, 32, 1, 1)


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


def test_each_network_is_drawn_from_its_own_key():
    keys = mx.random.split(mx.random.key(1), 2)
    one = StackedMlps(SHAPE).init(*keys)
    shapes = shapes_of(StackedMlps(SHAPE).parameter_specs)
    assert {name: each.shape for name, each in one.items()} == shapes
    assert mx.array_equal(one["density"], uniform_by_layer(SHAPE.density, keys[0]))
    assert mx.array_equal(one["color"], uniform_by_layer(SHAPE.color, keys[1]))
