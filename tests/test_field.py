"""The radiance field: its parts joined as the module says, its parameters' shapes and spread."""

from itertools import pairwise
from math import log, sqrt

import mlx.core as mx
import numpy as np
import pytest
from numerics import assert_matches

from nerfmac.backend import choose_device
from nerfmac.config import PRESETS, Config, HashGridConfig, override
from nerfmac.encoding import HashGrid
from nerfmac.field import EMBEDDING, RadianceField, truncated_exp
from nerfmac.mlp import StackedMlp
from nerfmac.ops.hash_encode import hash_encode
from nerfmac.ops.mlp import MlpShape

ROUNDOFF = 2.0**-24
CONFIG: Config = override(
    PRESETS["tiny"],
    grid={"levels": 4, "features": 4, "log2_entries": 10, "finest": 64},
    networks={"width": 16, "density_layers": 2, "colour_layers": 1},
)


@pytest.fixture(autouse=True)
def on_the_cpu():
    choose_device("cpu")


def field_and_parameters(extent: float = 2.0) -> tuple[RadianceField, dict[str, mx.array]]:
    """A field whose table is as large as a trained one's."""
    field = RadianceField(CONFIG, extent)
    parameters = field.init(mx.random.key(3))
    return field, parameters | {"table": 1e4 * parameters["table"]}


def points(count: int, extent: float = 2.0) -> tuple[mx.array, mx.array]:
    """Positions in the cube and unit directions."""
    random = np.random.default_rng(count)
    position = 0.5 + extent * random.uniform(-0.5, 0.5, (count, 3))
    direction = random.normal(size=(count, 3))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    return mx.array(position, mx.float32), mx.array(direction, mx.float32)


def network(inputs: np.ndarray, weights: mx.array, widths: list[int]) -> np.ndarray:
    flat = np.array(weights, np.float64)
    for layer, (rows, columns) in enumerate(pairwise(widths)):
        matrix, flat = flat[: rows * columns].reshape(rows, columns), flat[rows * columns :]
        inputs = inputs @ matrix
        if layer < len(widths) - 2:
            inputs = np.maximum(inputs, 0.0)
    return inputs


def test_density_is_the_exponential_of_the_density_networks_first_output():
    field, parameters = field_and_parameters()
    position, _ = points(77)
    density, embedding = field.density(parameters, position)
    grid = HashGrid(CONFIG.grid, 2.0)
    features = np.array(grid(parameters["table"], position), np.float64)
    want = network(features, parameters["density"], [16, 16, 16, EMBEDDING])
    assert_matches(embedding, want, rel=4 * 64 * ROUNDOFF, name="embedding")
    assert_matches(density, np.exp(want[:, 0]), rel=16 * 64 * ROUNDOFF, name="density")


def test_colour_is_the_sigmoid_of_a_network_of_the_embedding_and_then_the_direction():
    field, parameters = field_and_parameters()
    position, direction = points(77)
    _, embedding = field.density(parameters, position)
    basis = field.basis(direction)
    inputs = np.concatenate([np.array(embedding), np.array(basis)], axis=1).astype(np.float64)
    want = 1 / (1 + np.exp(-network(inputs, parameters["colour"], [32, 16, 16])[:, :3]))
    got = field.colour(parameters, embedding, basis)
    assert_matches(got, want, rel=4 * 64 * ROUNDOFF, name="colour")
    assert np.array(got).min() >= 0.0
    assert np.array(got).max() <= 1.0


def test_colour_depends_on_the_direction():
    field, parameters = field_and_parameters()
    position, direction = points(20)
    _, embedding = field.density(parameters, position)
    one, other = (
        field.colour(parameters, embedding, field.basis(d)) for d in (direction, -direction)
    )
    assert np.abs(np.array(one - other)).max() > 0.01


def test_the_scenes_cube_fills_the_hash_grids_unit_cube():
    grid = HashGrid(CONFIG.grid, 3.0)
    table = mx.random.normal((grid.levels.entries, 4), key=mx.random.key(1))
    unit = np.random.default_rng(2).uniform(0.0, 1.0, (50, 3))
    scene = 0.5 + 3.0 * (unit - 0.5)
    got = grid(table, mx.array(scene, mx.float32))
    want = hash_encode(mx.array(unit, mx.float32), table, grid.levels)
    # A place within the finest of 192 cells.
    assert_matches(got, want, rel=32 * 192 * ROUNDOFF, name="encoded")


@pytest.mark.parametrize("extent", [1.0, 3.0, 16.0])
def test_levels_are_geometric_from_the_coarsest_to_the_finest_of_a_scene_unit(extent):
    config = HashGridConfig(levels=8, features=2, coarsest=12, finest=512)
    cells = np.array(HashGrid(config, extent).levels.scales) + 1.0
    assert cells[0] == pytest.approx(12.0)
    assert cells[-1] == pytest.approx(512 * extent)
    assert np.diff(np.log(cells)) == pytest.approx(log(512 * extent / 12) / 7)
    assert HashGrid(config, extent).outputs == 16


@pytest.mark.parametrize("name", PRESETS)
def test_fresh_parameters_have_the_shapes_the_field_says(name):
    field = RadianceField(override(PRESETS[name], grid={"log2_entries": 10}), 1.0)
    parameters = field.init(mx.random.key(0))
    assert {each: values.shape for each, values in parameters.items()} == field.shapes
    assert {values.dtype for values in parameters.values()} == {mx.float32}


def test_a_fresh_table_is_uniform_within_a_ten_thousandth():
    table = np.array(RadianceField(CONFIG, 1.0).init(mx.random.key(5))["table"]).ravel()
    assert np.abs(table).max() <= 1e-4
    # Of a uniform variable: mean 0, deviation 1e-4 / sqrt(3).
    assert abs(table.mean()) < 5 * 1e-4 / sqrt(3 * table.size)
    assert table.std() == pytest.approx(1e-4 / sqrt(3), rel=5 / sqrt(table.size))


def test_fresh_weights_are_uniform_within_glorots_bound_of_their_layer():
    shape = MlpShape(16, 64, 3, 32)
    weights = StackedMlp(shape).init(mx.random.key(7))
    for matrix in shape.split(weights):
        rows, columns = matrix.shape
        bound, values = sqrt(6 / (rows + columns)), np.array(matrix).ravel()
        assert np.abs(values).max() <= bound
        assert np.abs(values).max() > 0.98 * bound
        assert values.std() == pytest.approx(bound / sqrt(3), rel=5 / sqrt(values.size))
    _, second, third, _ = (np.array(matrix).ravel() for matrix in shape.split(weights))
    assert abs(np.corrcoef(second, third)[0, 1]) < 5 / sqrt(second.size)


def test_the_same_key_gives_the_same_parameters_and_another_one_others():
    field = RadianceField(CONFIG, 1.0)
    one, same, other = (field.init(mx.random.key(seed)) for seed in (1, 1, 2))
    for name in one:
        assert mx.array_equal(one[name], same[name])
        assert not mx.array_equal(one[name], other[name])


def test_truncated_exp_is_exp():
    x = np.array([-100.0, -20.0, -15.0, -1.0, 0.0, 2.5, 15.0, 20.0, 80.0])
    got = np.array(truncated_exp(mx.array(x, mx.float32)), np.float64)
    assert got == pytest.approx(np.exp(x), rel=128 * ROUNDOFF, abs=1e-38)


def test_truncated_exps_gradient_is_that_at_the_nearest_point_within_fifteen():
    x = np.array([-100.0, -20.0, -15.0, -1.0, 0.0, 2.5, 15.0, 20.0, 80.0, 1000.0])
    weigh = np.arange(1.0, 11.0)
    slope = mx.grad(lambda x: (truncated_exp(x) * mx.array(weigh, mx.float32)).sum())
    got = np.array(slope(mx.array(x, mx.float32)), np.float64)
    assert got == pytest.approx(weigh * np.exp(np.clip(x, -15, 15)), rel=64 * ROUNDOFF)


def test_gradients_reach_every_parameter():
    field, parameters = field_and_parameters()
    position, direction = points(200)

    def loss(parameters: dict[str, mx.array]) -> mx.array:
        density, embedding = field.density(parameters, position)
        colour = field.colour(parameters, embedding, field.basis(direction))
        return (density * colour[:, 0] + colour[:, 2]).sum()

    for name, slope in mx.grad(loss)(parameters).items():
        values = np.array(slope)
        assert np.isfinite(values).all(), name
        assert values.any(), name


def test_density_alone_gives_the_colour_network_no_gradient():
    field, parameters = field_and_parameters()
    position, _ = points(50)
    slopes = mx.grad(lambda p: field.density(p, position)[0].sum())(parameters)
    assert not np.array(slopes["colour"]).any()
    assert np.array(slopes["density"]).any()
