"""The warp's triangles cover the grid without cracks, follow its values, and are few where flat."""

from collections import Counter

import numpy as np
import pytest

COLUMNS, ROWS = 46, 31


def stepped(rng):
    """Codes of a slanted wall, empty space next to it, and a near disc with a rough surface."""
    y, x = np.mgrid[:ROWS, :COLUMNS]
    values = 9000.0 + 80.0 * x + 50.0 * y
    values[:, 33:] = 0.0
    is_disc = np.hypot(x - 17, y - 14) < 8
    return np.where(is_disc, 40000.0 + rng.uniform(0, 9000, x.shape), values).round()


@pytest.fixture
def triangles_of(call):
    """Return a function that gives the triangles (n, 3) over `values` (rows, columns)."""

    def triangles(values):
        codes = [int(value) for value in values.ravel()]
        indices = call("image/triangles", "trianglesOf", codes, *values.shape[::-1])
        return np.reshape([*indices.values()] if isinstance(indices, dict) else indices, (-1, 3))

    return triangles


@pytest.fixture
def triangles(triangles_of):
    return triangles_of(stepped(np.random.default_rng(5)))


def test_an_edge_inside_the_grid_belongs_to_two_triangles_one_on_either_side(triangles):
    edges = Counter(
        (int(one), int(other))
        for triangle in triangles
        for one, other in zip(triangle, np.roll(triangle, -1), strict=True)
    )
    assert set(edges.values()) == {1}
    for one, other in edges:
        is_outermost = any(
            one // COLUMNS == other // COLUMNS == row for row in (0, ROWS - 1)
        ) or any(one % COLUMNS == other % COLUMNS == column for column in (0, COLUMNS - 1))
        assert ((other, one) in edges) is not is_outermost


def test_triangles_face_one_way_and_cover_the_grid_once(triangles):
    x, y = triangles % COLUMNS, triangles // COLUMNS
    (ax, bx, cx), (ay, by, cy) = x.T, y.T
    twice = (bx - ax) * (cy - ay) - (cx - ax) * (by - ay)
    assert (twice >= 0).all()
    assert twice.sum() == 2 * (COLUMNS - 1) * (ROWS - 1)


def test_triangles_follow_the_values_at_all_vertices(triangles):
    values = stepped(np.random.default_rng(5))
    is_checked = np.zeros(values.shape, bool)
    for triangle in triangles:
        corners = np.stack([triangle % COLUMNS, triangle // COLUMNS, np.ones(3)])
        if abs(np.linalg.det(corners)) < 0.5:
            continue  # its corners are collinear
        left, top = corners[:2].min(axis=1).astype(int)
        right, bottom = corners[:2].max(axis=1).astype(int)
        y, x = np.mgrid[top : bottom + 1, left : right + 1]
        weights = np.linalg.solve(corners, np.stack([x.ravel(), y.ravel(), np.ones(x.size)]))
        is_inside = (weights > -1e-9).all(axis=0)
        x, y = x.ravel()[is_inside], y.ravel()[is_inside]
        drawn = values.ravel()[triangle] @ weights[:, is_inside]
        assert drawn == pytest.approx(values[y, x], rel=0.05, abs=0.5)
        is_checked[y, x] = True
    assert is_checked.all()


def test_a_wall_takes_few_triangles_and_a_bumpy_one_two_a_cell(triangles_of):
    y, x = np.mgrid[:ROWS, :COLUMNS]
    assert len(triangles_of(9000 + 80 * x + 50 * y)) <= 40
    checkered = np.where((x + y) % 2, 10000.0, 11000.0)
    assert len(triangles_of(checkered)) == 2 * (COLUMNS - 1) * (ROWS - 1)
