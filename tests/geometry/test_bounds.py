"""The scene's cube: its corners, where rays cross it, and its map to unit coordinates."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.backend import choose_device
from nerfmac.geometry.bounds import Bounds


@pytest.fixture(autouse=True)
def on_the_cpu():
    choose_device("cpu")


def rays(extent: float) -> tuple[np.ndarray, np.ndarray]:
    """Rays from in and around the cube, many with a direction along an axis or a face's plane."""
    random = np.random.default_rng(11)
    origin = 0.5 + extent * random.uniform(-1.2, 1.2, (300, 3))
    direction = random.normal(size=(300, 3)) - 0.5 * (origin - 0.5)
    direction *= random.uniform(size=(300, 3)) > 0.3
    direction = direction[(length := np.linalg.norm(direction, axis=1)) > 0]
    return origin[length > 0], direction / length[length > 0, None]


@pytest.mark.parametrize("extent", [0.4, 1.0, 5.0])
def test_a_ray_is_inside_just_between_where_it_enters_and_where_it_leaves(extent):
    near = 0.3 * extent
    origin, direction = rays(extent)
    arrays = (mx.array(each, mx.float32) for each in (origin, direction))
    enter, leave = (np.array(each)[:, None] for each in Bounds(extent).crossing(*arrays, near))
    distance = np.linspace(0.0, 4.0 * extent, 401)[None]
    points = origin[:, None] + direction[:, None] * distance[..., None]
    is_inside = (np.abs(points - 0.5) <= extent / 2).all(axis=2) & (distance >= near)
    is_between = (distance >= enter) & (distance <= leave)
    slack = 1e-5 * extent
    is_clear = (np.abs(distance - enter) > slack) & (np.abs(distance - leave) > slack)
    assert (is_inside == is_between)[is_clear].all()
    assert is_inside.any(axis=1).mean() > 0.1
    assert (~is_inside).all(axis=1).mean() > 0.2


@pytest.mark.parametrize("extent", [0.4, 1.0, 5.0])
def test_the_corners_and_what_is_between_them_is_held_and_nothing_else(extent):
    bounds = Bounds(extent)
    low, high = bounds.corners
    assert np.allclose(high - low, extent)
    assert np.allclose(low + high, 1.0)
    inside = np.array([low, high, [0.5] * 3])
    assert bounds.holds(inside).all()
    assert bounds.holds(mx.array(inside[2:], mx.float32)).all()
    for axis in np.eye(3):
        assert not bounds.holds(high + 1e-3 * axis)
        assert not bounds.holds(low - 1e-3 * axis)
        assert bounds.holds(low - 1e-3 * axis, tolerance=1e-2)


@pytest.mark.parametrize("extent", [0.4, 1.0, 5.0])
def test_the_cube_becomes_the_unit_cube_and_the_symmetric_one(extent):
    bounds = Bounds(extent)
    points = mx.array(
        np.array([*bounds.corners, [0.5] * 3, [0.5, 0.5 + extent / 4, 0.5]]), mx.float32
    )
    unit = np.array([[0.0] * 3, [1.0] * 3, [0.5] * 3, [0.5, 0.75, 0.5]])
    assert np.allclose(bounds.to_unit(points), unit, atol=1e-6)
    assert np.allclose(bounds.to_symmetric(points), 2.0 * unit - 1.0, atol=1e-6)
    _, (slope,) = mx.vjp(bounds.to_symmetric, [points], [mx.ones(points.shape)])
    assert np.allclose(slope, bounds.symmetric_scale)
    assert bounds.cells_across(100.0) == 100.0 * extent


@pytest.mark.parametrize(("extent", "inner"), [(8.0, 2.0), (128.0, 1.5), (3.0, 2.9)])
def test_a_contraction_fills_the_unit_cube_and_keeps_near_space_as_it_is(extent, inner):
    bounds = Bounds(extent, inner)
    assert bounds.is_contracted
    points = np.array([*bounds.corners, [0.5] * 3, [0.5, 0.5 + inner / 4, 0.5]])
    quarter = inner / 4 / bounds.encoded_side
    unit = np.array([[0.0] * 3, [1.0] * 3, [0.5] * 3, [0.5, 0.5 + quarter, 0.5]])
    points = mx.array(points, mx.float32)
    assert np.allclose(bounds.to_unit(points), unit, atol=1e-6)
    assert np.allclose(bounds.to_symmetric(points), 2.0 * unit - 1.0, atol=1e-6)
    _, (slope,) = mx.vjp(bounds.to_symmetric, [points[2:]], [mx.ones((2, 3))])
    assert np.allclose(slope, bounds.symmetric_scale), "near space is scaled as in the centre"
    assert bounds.cells_across(100.0) == pytest.approx(100.0 * bounds.encoded_side)
    assert bounds.encoded_side < min(extent, 2.0 * inner)


def test_on_its_way_out_a_point_never_turns_back_and_moves_ever_less():
    bounds = Bounds(64.0, 2.0)
    distance = np.linspace(0.0, 31.9, 400)
    along = 0.5 + distance[:, None] * [0.3, -1.0, 0.7]
    unit = np.array(bounds.to_unit(mx.array(along, mx.float32)), np.float64)
    steps = np.linalg.norm(np.diff(unit, axis=0), axis=1)
    assert (steps > 0).all()
    is_far = distance[:-1] >= 1.0
    assert (np.diff(steps[is_far]) < 1e-6).all()
    assert steps[-1] < 0.01 * steps[0]


def test_an_inner_cube_as_large_as_the_whole_one_contracts_nothing():
    for bounds in (Bounds(4.0, 4.0), Bounds(4.0, 5.0), Bounds(4.0)):
        assert not bounds.is_contracted
        assert bounds.encoded_side == 4.0
