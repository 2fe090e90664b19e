"""The vanilla field: both networks against float64, their gradients, their first parameters."""

from dataclasses import replace
from math import sqrt

import mlx.core as mx
import numpy as np
import pytest
from numerics import assert_matches

from nerfmac import Bounds, Rays, Samples
from nerfmac.config import VanillaConfig
from nerfmac.fields.field import shapes_of
from nerfmac.fields.vanilla import VanillaField
from nerfmac.ops.composite import composite
from nerfmac.sampling.hierarchical import HierarchicalSampler
from tests.fields.test_encodings import encoded

pytestmark = pytest.mark.usefixtures("on_the_cpu")

ROUNDOFF = 2.0**-24
EXTENT = 3.0
CONFIG = VanillaConfig(width=24, layers=5, skip=2, position_frequencies=5, direction_frequencies=3)
COUNTS = np.array([0, 5, 33, 1, 0, 40, 2])  # samples of each ray
USED = int(COUNTS.sum())
NETWORKS = ["coarse", "fine"]
# The longest sums have as many terms as a layer inputs; the finest sine's argument is 16 pi.
TOLERANCE = 4 * 16 * np.pi * sqrt(57) * ROUNDOFF

Arrays = dict[str, np.ndarray]


def field_and_parameters(name: str = "fine") -> tuple[VanillaField, dict[str, mx.array]]:
    """A field with nonzero biases."""
    field = VanillaField(CONFIG, Bounds(EXTENT), name)
    parameters = field.init(mx.random.key(3))
    random = np.random.default_rng(4)
    for name, values in parameters.items():
        if name.endswith("bias"):
            parameters[name] = mx.array(random.normal(0.0, 0.3, values.shape), mx.float32)
    return field, parameters


def drawn(slots: int = USED) -> tuple[Samples, Rays]:
    """Samples of some rays in `slots` slots, and the rays."""
    random = np.random.default_rng(7)
    position = 0.5 + EXTENT * random.uniform(-0.5, 0.5, (USED, 3))
    free = slots - USED
    samples = Samples(
        position=mx.array(np.pad(position, ((0, free), (0, 0))), mx.float32),
        distance=mx.zeros(slots),
        width=mx.zeros(slots),
        ray=mx.array(np.pad(np.repeat(np.arange(COUNTS.size), COUNTS), (0, free)), mx.int32),
        ray_start=mx.array(np.cumsum([0, *COUNTS]), mx.int32),
        wanted=mx.array(COUNTS, mx.int32),
    )
    direction = random.normal(size=(COUNTS.size, 3))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    return samples, Rays(mx.zeros(direction.shape), mx.array(direction, mx.float32)).complete


def in_float64(parameters: dict[str, mx.array]) -> Arrays:
    return {name: np.array(values, np.float64) for name, values in parameters.items()}


def network(name: str, parameters: Arrays, position: np.ndarray, direction: np.ndarray):
    """Density and color as figure 7 of the paper has them, all inputs of a layer side by side."""

    def relu(values: np.ndarray) -> np.ndarray:
        return np.maximum(values, 0.0)

    def layer(which: str, inputs: np.ndarray, second: str = "") -> np.ndarray:
        matrix = parameters[f"{name}.{which}.weight"]
        if second:
            matrix = np.concatenate([matrix, parameters[f"{name}.{which}.{second}"]])
        return inputs @ matrix + parameters[f"{name}.{which}.bias"]

    x = encoded((position - 0.5) / (EXTENT / 2), 5)
    hidden = x
    for i in range(3):
        hidden = relu(layer(str(i), hidden))
    hidden = relu(layer("3", np.concatenate([hidden, x], axis=1), "position"))
    hidden = relu(layer("4", hidden))
    density = np.log1p(np.exp(layer("density", hidden)[:, 0] - 1.0)) / (EXTENT / 2)
    seen = np.concatenate([layer("bottleneck", hidden), encoded(direction, 3)], axis=1)
    color = layer("color", relu(layer("view", seen, "direction")))
    return density, 1.0 / (1.0 + np.exp(-color))


@pytest.mark.parametrize("name", NETWORKS)
def test_each_network_is_the_papers(name):
    field, parameters = field_and_parameters(name)
    samples, rays = drawn()
    position, direction = (np.array(a, np.float64) for a in (samples.position, rays.direction))
    want = network(name, in_float64(parameters), position, direction[np.array(samples.ray)])
    got = field(parameters, samples, rays)
    assert_matches(got[0], want[0], rel=TOLERANCE, name="density")
    assert_matches(got[1], want[1], rel=TOLERANCE, name="color")


def test_density_alone_is_the_fine_networks_and_has_no_gradient():
    field, parameters = field_and_parameters()
    samples, rays = drawn()
    density, _, _ = field(parameters, samples, rays)
    assert mx.array_equal(field.density(parameters, samples, rays), density)
    slope = mx.grad(lambda p: field.density(p, samples, rays).sum())(parameters)
    assert all(not mx.any(each).item() for each in slope.values())


@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_are_those_of_finite_differences(name):
    field, parameters = field_and_parameters(name)
    samples, rays = drawn()
    random = np.random.default_rng(8)
    by_density, by_color = random.normal(size=USED), random.normal(size=(USED, 3))

    def loss(parameters: dict[str, mx.array]) -> mx.array:
        density, color, _ = field(parameters, samples, rays)
        weights = mx.array(by_density, mx.float32), mx.array(by_color, mx.float32)
        return (density * weights[0]).sum() + (color * weights[1]).sum()

    position, direction = (np.array(a, np.float64) for a in (samples.position, rays.direction))

    def loss64(parameters: Arrays) -> float:
        seen_along = direction[np.array(samples.ray)]
        density, color = network(name, parameters, position, seen_along)
        return (density * by_density).sum() + (color * by_color).sum()

    gradient, at = mx.grad(loss)(parameters), in_float64(parameters)
    for which in field.parameter_specs:
        toward = random.normal(size=at[which].shape)
        ends = [loss64(at | {which: at[which] + s * 1e-6 * toward}) for s in (1, -1)]
        got = (np.array(gradient[which], np.float64) * toward).sum()
        scale = np.linalg.norm(gradient[which]) * np.linalg.norm(toward)
        assert abs(got - (ends[0] - ends[1]) / 2e-6) < 10 * TOLERANCE * scale, which
        assert scale > 0.0, which


def test_slots_of_no_ray_give_no_nan_and_no_gradient():
    field, parameters = field_and_parameters()

    def loss(parameters: dict[str, mx.array], slots: int) -> mx.array:
        density, color, _ = field(parameters, *drawn(slots))
        return density[:USED].sum() + color[:USED, 1].sum()

    density, color, _ = field(parameters, *drawn(USED + 20))
    assert np.isfinite(np.array(density)).all()
    assert np.isfinite(np.array(color)).all()
    few, many = (mx.grad(loss)(parameters, slots) for slots in (USED, USED + 20))
    for which in few:
        assert_matches(many[which], few[which], rel=256 * ROUNDOFF, name=which)


def test_a_scene_of_another_size_is_the_same_to_the_networks():
    field, parameters = field_and_parameters()
    samples, rays = drawn()
    larger = samples._replace(position=0.5 + 4.0 * (samples.position - 0.5))
    one = field(parameters, samples, rays)
    other = VanillaField(CONFIG, Bounds(4.0 * EXTENT))(parameters, larger, rays)
    assert_matches(4.0 * other[0], one[0], rel=TOLERANCE, name="optical thickness")
    assert_matches(other[1], one[1], rel=TOLERANCE, name="color")


def test_weights_begin_uniform_up_to_glorots_bound_and_biases_zero():
    field = VanillaField(replace(CONFIG, width=64), Bounds(1.0))
    parameters = field.init(mx.random.key(0))
    shapes = shapes_of(field.parameter_specs)
    assert {name: values.shape for name, values in parameters.items()} == shapes
    inputs = {"0": 33, "3": 64 + 33, "view": 64 + 21, "color": 32}
    outputs = {"density": 1, "view": 32, "color": 3}
    for name, values in parameters.items():
        assert values.dtype == mx.float32
        _, layer, kind = name.split(".")
        bound = sqrt(6.0 / (inputs.get(layer, 64) + outputs.get(layer, 64)))
        largest = np.abs(np.array(values)).max()
        assert largest == 0.0 if kind == "bias" else 0.9 * bound < largest <= bound, name


def rays_toward(count: int, key: mx.array) -> Rays:
    """Rays from around the unit cube to points inside it."""
    eye, point = mx.random.split(key)
    origin = mx.random.normal((count, 3), key=eye)
    origin = 0.5 + 1.8 * origin / mx.linalg.norm(origin, axis=1, keepdims=True)
    toward = mx.random.uniform(0.1, 0.9, (count, 3), key=point) - origin
    return Rays(origin, toward / mx.linalg.norm(toward, axis=1, keepdims=True))


def ball(rays: Rays) -> mx.array:
    """(rays, 3) colors of a ball off the middle, painted by its normal, before black."""
    offset = rays.origin - mx.array([0.62, 0.45, 0.4])
    half = (offset * rays.direction).sum(axis=1)
    root = mx.square(half) - mx.square(offset).sum(axis=1) + 0.25**2
    distance = -half - mx.sqrt(mx.maximum(root, 0.0))
    normal = (offset + rays.direction * distance[:, None]) / 0.25
    return mx.where(root[:, None] > 0.0, 0.5 + 0.5 * normal, 0.0)


SMALL = VanillaConfig(
    width=16, layers=3, skip=0, position_frequencies=2, direction_frequencies=1, coarse=10, fine=10
)


def errors(parameters: dict[str, mx.array], rays: Rays, drawn: mx.array) -> mx.array:
    """(2,) mean squared error of the coarse and the fine rendering of the ball."""
    field, proposal = (VanillaField(SMALL, Bounds(1.0), name) for name in ("fine", "coarse"))
    sampler = HierarchicalSampler(proposal, Bounds(1.0), 0.1, (SMALL.coarse, SMALL.fine), 0.1)
    samples, coarse = sampler.sample(parameters, {}, rays, drawn)[:2]
    density, color, _ = field(parameters, samples, rays)
    fine = composite(density, color, samples)
    want = ball(rays)
    return mx.stack([mx.square(seen.color - want).mean() for seen in (coarse, fine)])


def test_each_networks_parameters_get_a_gradient_from_its_own_error_alone():
    parameters = {}
    for name, key in zip(NETWORKS, mx.random.split(mx.random.key(1)), strict=True):
        parameters |= VanillaField(SMALL, Bounds(1.0), name).init(key)
    rays, drawn = rays_toward(64, mx.random.key(2)), mx.full((64, 20), 0.5)
    for index, own in enumerate(NETWORKS):
        gradient = mx.grad(lambda p, i=index: errors(p, rays, drawn)[i])(parameters)
        for name, values in gradient.items():
            assert np.isfinite(np.array(values)).all(), name
            assert mx.any(values != 0.0).item() == name.startswith(own), name
