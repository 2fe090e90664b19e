"""The scene's cube: its corners, where rays cross it, and its map to unit coordinates."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.geometry.bounds import Bounds

pytestmark = pytest.mark.usefixtures("on_the_cpu")


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
