"""The encoded field: composition of its parts, parameter shapes, and initial distribution."""

from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise
from math import log, sqrt

import mlx.core as mx
import numpy as np
import pytest
from numerics import assert_matches

from nerfmac import Bounds, EncodedField, Rays, Samples
from nerfmac.backend import kernels_disabled
from nerfmac.config import PRESETS, Config, HashGridConfig, override
from nerfmac.fields.encodings import HashGrid, encoding_of
from nerfmac.geometry import Viewpoints
from nerfmac.ops.hash_encode import hash_encode
from nerfmac.ops.spherical_harmonics import spherical_harmonics

pytestmark = pytest.mark.usefixtures("on_the_cpu")

ROUNDOFF = 2.0**-24
CONFIG: Config = override(
    PRESETS["tiny"],
    grid={"levels": 4, "features": 4, "log2_entries": 10, "finest": 64},
    networks={"width": 16, "density_layers": 2, "color_layers": 1},
)
COUNTS = np.array([0, 5, 33, 1, 0, 40, 2])  # samples of each ray
USED = int(COUNTS.sum())


def field_and_parameters(extent: float = 2.0) -> tuple[EncodedField, dict[str, mx.array]]:
    """A field with table values as large as after training."""
    field = EncodedField(encoding_of(CONFIG, Bounds(extent)), CONFIG.networks)
    parameters = field.init(mx.random.key(3))
    return field, parameters | {"table": 1e4 * parameters["table"]}


def points(count: int, extent: float = 2.0) -> mx.array:
    """Positions in the cube."""
    random = np.random.default_rng(count)
    return mx.array(0.5 + extent * random.uniform(-0.5, 0.5, (count, 3)), mx.float32)


def drawn(slots: int = USED, extent: float = 2.0) -> tuple[Samples, Rays]:
    """Samples of some rays in `slots` slots, and the rays."""
    ray = np.pad(np.repeat(np.arange(COUNTS.size), COUNTS), (0, slots - USED))
    samples = Samples(
        position=points(slots, extent),
        distance=mx.zeros(slots),
        width=mx.zeros(slots),
        ray=mx.array(ray, mx.int32),
        ray_start=mx.array(np.cumsum([0, *COUNTS]), mx.int32),
        wanted=mx.array(COUNTS, mx.int32),
    )
    direction = np.random.default_rng(1).normal(size=(COUNTS.size, 3))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    return samples, Rays(mx.zeros(direction.shape), mx.array(direction, mx.float32)).complete


def network(inputs: np.ndarray, weights: mx.array, widths: list[int]) -> np.ndarray:
    flat = np.array(weights, np.float64)
    for layer, (rows, columns) in enumerate(pairwise(widths)):
        matrix, flat = flat[: rows * columns].reshape(rows, columns), flat[rows * columns :]
        inputs = inputs @ matrix
        if layer < len(widths) - 2:
            inputs = np.maximum(inputs, 0.0)
    return inputs


def embedded(parameters: dict[str, mx.array], position: mx.array) -> np.ndarray:
    features = HashGrid(CONFIG.grid, Bounds(2.0)).features(parameters, position)
    return network(np.array(features, np.float64), parameters["density"], [16, 16, 16, 16])


def test_density_is_the_exponential_of_the_density_networks_first_output():
    field, parameters = field_and_parameters()
    samples, rays = drawn()
    want = np.exp(embedded(parameters, samples.position)[:, 0] - CONFIG.networks.density_bias)
    density = field(parameters, samples, rays).density
    assert_matches(density, want, rel=4 * 64 * ROUNDOFF, name="density")
    alone = field.density(parameters, samples, rays)
    assert_matches(alone, want, rel=4 * 64 * ROUNDOFF, name="density alone")


def test_color_is_the_sigmoid_of_a_network_of_the_embedding_and_then_the_rays_direction():
    field, parameters = field_and_parameters()
    samples, rays = drawn()
    basis = np.array(spherical_harmonics(rays.direction), np.float64)[np.array(samples.ray)]
    inputs = np.concatenate([embedded(parameters, samples.position), basis], axis=1)
    want = 1 / (1 + np.exp(-network(inputs, parameters["color"], [32, 16, 16])[:, :3]))
    got = field(parameters, samples, rays).color
    assert_matches(got, want, rel=4 * 64 * ROUNDOFF, name="color")
    assert np.array(got).min() >= 0.0
    assert np.array(got).max() <= 1.0


def test_slots_of_no_ray_do_not_matter():
    field, parameters = field_and_parameters()
    samples, rays = drawn(USED + 20)

    def loss(parameters: dict[str, mx.array], position: mx.array) -> mx.array:
        density, color, _ = field(parameters, samples._replace(position=position), rays)
        return (density * color[:, 0] + color[:, 2]).sum()

    found = []
    for elsewhere in (0.0, 0.7):
        position = mx.where(mx.arange(USED + 20)[:, None] < USED, samples.position, elsewhere)
        density, color, _ = field(parameters, samples._replace(position=position), rays)
        by_name, d_position = mx.grad(loss, argnums=(0, 1))(parameters, position)
        assert np.array(d_position)[:USED].any(axis=1).all()
        assert not np.array(d_position)[USED:].any()
        found.append([density[:USED], color[:USED], d_position, *by_name.values()])
    for one, other in zip(*found, strict=True):
        assert mx.array_equal(one, other)


def test_the_scenes_cube_fills_the_hash_grids_unit_cube():
    grid = HashGrid(CONFIG.grid, Bounds(3.0))
    table = mx.random.normal((grid.levels.entries, 4), key=mx.random.key(1))
    unit = np.random.default_rng(2).uniform(0.0, 1.0, (50, 3))
    scene = 0.5 + 3.0 * (unit - 0.5)
    got = grid.features({"table": table}, mx.array(scene, mx.float32))
    want = hash_encode(mx.array(unit, mx.float32), table, replace(grid.levels, extent=1.0))
    # A place within the finest of 192 cells.
    assert_matches(got, want, rel=32 * 192 * ROUNDOFF, name="encoded")


@pytest.mark.parametrize("extent", [1.0, 3.0, 16.0])
def test_levels_are_geometric_from_the_coarsest_to_the_finest_of_a_scene_unit(extent):
    config = HashGridConfig(levels=8, features=2, coarsest=12, finest=512)
    cells = np.array(HashGrid(config, Bounds(extent)).levels.scales) + 1.0
    assert cells[0] == pytest.approx(12.0)
    assert cells[-1] == pytest.approx(512 * extent)
    assert np.diff(np.log(cells)) == pytest.approx(log(512 * extent / 12) / 7)
    assert HashGrid(config, Bounds(extent)).outputs == 16


def test_a_fresh_table_is_uniform_within_a_ten_thousandth():
    table = np.array(
        EncodedField(encoding_of(CONFIG, Bounds(1.0)), CONFIG.networks).init(mx.random.key(5))[
            "table"
        ]
    ).ravel()
    assert np.abs(table).max() <= 1e-4
    # Of a uniform variable: mean 0, deviation 1e-4 / sqrt(3).
    assert abs(table.mean()) < 5 * 1e-4 / sqrt(3 * table.size)
    assert table.std() == pytest.approx(1e-4 / sqrt(3), rel=5 / sqrt(table.size))


def test_l2_regularization_applies_to_the_networks_and_not_to_the_table():
    field, _ = field_and_parameters()
    specs = field.parameter_specs.items()
    assert {name: spec.is_l2_regularized for name, spec in specs} == {
        "table": False,
        "density": True,
        "color": True,
    }


@pytest.mark.parametrize(
    ("encoding", "dtype", "run_by", "bounded"),
    [
        ("hash", mx.float16, nullcontext, {"table"}),
        ("hash", mx.float32, kernels_disabled, {"table"}),
        ("hash", mx.float16, kernels_disabled, set()),
        ("frequency", mx.float16, nullcontext, set()),
    ],
)
def test_a_gradient_is_bounded_only_if_the_kernel_clamps_it_or_it_is_in_single_precision(
    encoding, dtype, run_by, bounded, monkeypatch
):
    monkeypatch.setattr("nerfmac.fields.encoded.working_dtype", lambda: dtype)
    config = override(CONFIG, encoding=encoding)
    field = EncodedField(encoding_of(config, Bounds(1.0)), config.networks)
    with run_by():
        specs = field.parameter_specs.items()
        assert {name for name, spec in specs if spec.has_bounded_gradient} == bounded


def test_gradients_reach_every_parameter():
    field, parameters = field_and_parameters()
    samples, rays = drawn()

    def loss(parameters: dict[str, mx.array]) -> mx.array:
        density, color, _ = field(parameters, samples, rays)
        return (density * color[:, 0] + color[:, 2]).sum()

    for name, slope in mx.grad(loss)(parameters).items():
        values = np.array(slope)
        assert np.isfinite(values).all(), name
        assert values.any(), name


def test_the_positions_gradient_is_the_finite_difference_along_each_axis():
    field, parameters = field_and_parameters()
    samples, rays = drawn()
    step = 2.0**-15  # the finest level's cells are 2^-6 wide

    def results(position: mx.array) -> mx.array:
        density, color, _ = field(parameters, samples._replace(position=position), rays)
        return mx.log(density) + color @ mx.array([1.0, -2.0, 0.5])

    got = np.array(mx.grad(lambda position: results(position).sum())(samples.position))
    want = np.zeros_like(got)
    for axis in range(3):
        along = step * mx.eye(3)[axis]
        ahead, behind = results(samples.position + along), results(samples.position - along)
        want[:, axis] = np.array(ahead - behind) / (2 * step)
    # Some differences reach over the face of a cell, or where a rectifier opens.
    assert_matches(got, want, rel=1e-2, outliers=0.05, name="d position")


@pytest.mark.parametrize("run_by", [nullcontext, kernels_disabled])
def test_directions_get_no_gradient(run_by):
    field, parameters = field_and_parameters()
    samples, rays = drawn()
    with run_by():

        def color(direction):
            return field(parameters, samples, rays._replace(direction=direction)).color.sum()

        d = mx.grad(color)(rays.direction)
        assert not np.array(d).any()


@pytest.mark.parametrize("used", [0, 1, 33, 34, 67, 100])
@pytest.mark.parametrize("most", [1.0, 3 * 16, 34 * 16 + 5, 1e9])
def test_densities_of_a_limited_number_of_points_per_launch_are_the_same(monkeypatch, used, most):
    field, parameters = field_and_parameters()
    sizes, valid_points, encode = [], [], HashGrid.__call__

    def encoded(self, parameters, samples, rays):
        sizes.append(samples.position.shape[0])
        valid_points.append(int(samples.used[0]))
        return encode(self, parameters, samples, rays)

    samples, rays = Viewpoints.of(None, 0.01, 0.0).through(points(100))
    samples = samples._replace(ray_start=mx.minimum(samples.ray_start, used))
    want = np.array(field.density(parameters, samples, rays))[:used]
    monkeypatch.setattr("nerfmac.fields.encoded.features_per_launch", lambda: most)
    monkeypatch.setattr(HashGrid, "__call__", encoded)
    got = np.array(field.density(parameters, samples, rays))
    assert got.shape == (100,)
    assert np.array_equal(got[:used], want)
    assert (sum(sizes), sum(valid_points)) == (100, used)
    assert max(sizes) <= max(most / 16, 1)
    assert len(sizes) == -(-100 // max(int(most / 16), 1))
