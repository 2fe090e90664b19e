"""The scene's cube, and the numbers of its cells."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.geometry import BRICK, Bounds, Cells, cells_of, corners_of, number_of
from nerfmac.ops.march import MarchGeometry, cell_of

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


CASCADES, SIDE = 3, 16


def everywhere():
    """(cascade, z, y, x) of all cells, each (CASCADES, SIDE, SIDE, SIDE)."""
    return np.indices((CASCADES, SIDE, SIDE, SIDE), np.int32)


def test_every_cell_has_a_number_of_its_own_and_comes_back_from_it():
    cascade, z, y, x = (mx.array(each) for each in everywhere())
    number = number_of(Cells(cascade, x, y, z), SIDE)
    assert number.dtype == mx.int32
    assert sorted(np.array(number).ravel()) == list(range(CASCADES * SIDE**3))
    back = cells_of(number, SIDE)
    for got, want in zip(back, (cascade, x, y, z), strict=True):
        assert mx.array_equal(got, want)


def test_the_cells_of_a_word_are_a_brick_and_go_x_y_z():
    cells = np.stack(cells_of(mx.arange(CASCADES * SIDE**3), SIDE), axis=-1).reshape(-1, 32, 4)
    corner = cells[:, :1]
    assert (corner[..., 1:] % np.array(BRICK) == 0).all()
    within = (cells - corner)[..., 1:]
    want = [(x, y, z) for z in range(2) for y in range(4) for x in range(4)]
    assert (within == want).all()
    assert (cells[..., 0] == corner[..., 0]).all()


def test_a_cells_middle_lies_in_that_cell_unless_a_smaller_cascade_has_it():
    geometry = MarchGeometry(Bounds(2.0 ** (CASCADES - 1)), SIDE, 0.1, 0.01, 0.0)
    number = mx.arange(geometry.cells, dtype=mx.int32)
    lowest, side = corners_of(number, SIDE)
    back = np.array(cell_of(lowest + 0.5 * side[:, None], geometry))
    covered = np.abs(np.array(lowest + 0.5 * side[:, None]) - 0.5).max(axis=1)
    own = (np.array(number) < SIDE**3) | (covered > 0.25 * SIDE * np.array(side))
    assert np.array_equal(back == np.array(number), own)
    assert np.array(side).min() == 1.0 / SIDE
