"""The ground plane of planted points, and its distances along rays."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.geometry.ground_plane import ground_plane, nearest_distance
from nerfmac.geometry.rays import Rays

pytestmark = pytest.mark.usefixtures("on_the_cpu")

RANDOM = np.random.default_rng(11)
UP = (0.0, 0.0, 1.0)


def room(floor: int, wall: int, strewn: int, noise: float = 0.001) -> np.ndarray:
    """Points on a tilted floor of 2 x 1, on a wall, and anywhere."""
    flat = RANDOM.uniform((-1.0, -0.5), (1.0, 0.5), (floor, 2))
    rise = 0.1 * flat[:, 0] - 0.3 + RANDOM.normal(0.0, noise, floor)
    upright = RANDOM.uniform((-1.0, -0.3), (1.0, 2.0), (wall, 2))
    behind = 0.5 + RANDOM.normal(0.0, noise, wall)
    points = [
        np.column_stack([flat, rise]),
        np.column_stack([upright[:, 0], behind, upright[:, 1]]),
        RANDOM.uniform(-3.0, 3.0, (strewn, 3)),
    ]
    return np.concatenate(points)


def test_the_ground_plane_is_level_even_if_a_wall_has_more_points():
    points = room(300, 900, 400)
    plane = ground_plane(points, np.full(len(points), 0.01), UP)
    want = np.array([-0.1, 0.0, 1.0]) / np.hypot(0.1, 1.0)
    assert abs(plane.normal @ want) > 0.9999
    on_it = np.array([[0.5, 0.2, -0.25], [-0.9, -0.4, -0.39]])
    np.testing.assert_allclose(on_it @ plane.normal, plane.offset, atol=2e-3)


def distances(plane, origins: np.ndarray, ways: np.ndarray) -> np.ndarray:
    return np.array(plane.distance(Rays(mx.array(origins, mx.float32), mx.array(ways, mx.float32))))


def test_distances_to_the_plane_end_at_the_hull_of_its_points():
    points = room(2000, 0, 0)
    plane = ground_plane(points, np.full(len(points), 0.01), UP)
    origin = np.array([0.3, 0.1, 2.0])
    aim = np.array(
        [[0.3, 0.1], [0.9, 0.0], [-0.9, 0.0], [0.0, 0.45], [1.1, 0.0], [0.0, 0.6], [0.9, 0.6]]
    )
    aimed = np.column_stack([aim, 0.1 * aim[:, 0] - 0.3])
    away = np.linalg.norm(aimed - origin, axis=1)
    ways = (aimed - origin) / away[:, None]
    origins = np.broadcast_to(origin, ways.shape)
    distance = distances(plane, origins, ways)
    np.testing.assert_allclose(distance[:4], away[:4], rtol=2e-3)
    assert np.isinf(distance[4:]).all()
    assert np.isinf(distances(plane, origins, -ways)).all()


def test_a_far_point_may_miss_the_plane_by_more():
    points = room(400, 0, 200)
    far = np.linalg.norm(points, axis=1) > 0.7
    points[:400, 2] += np.where(far[:400], 0.03 * RANDOM.choice([-1.0, 1.0], 400), 0.0)
    tight = ground_plane(points, np.full(600, 0.002), UP)
    loose = ground_plane(points, np.where(far, 0.04, 0.002), UP)
    spread = [
        np.ptp(plane.reach.reshape(4, -1).max(axis=1)) + plane.reach.max()
        for plane in (tight, loose)
    ]
    assert spread[1] > 1.2 * spread[0]


@pytest.mark.parametrize(
    "points",
    [
        np.zeros((9, 3)),
        np.column_stack([np.arange(50.0), np.zeros(50), np.zeros(50)]),  # a line
        room(0, 500, 0),
        RANDOM.uniform(-3.0, 3.0, (500, 3)),
    ],
    ids=["few", "line", "wall", "strewn"],
)
def test_there_may_be_no_ground_plane(points):
    assert ground_plane(points, np.full(len(points), 0.01), UP) is None


def test_the_nearest_distance_is_the_smallest_over_all_cameras():
    points, eyes = RANDOM.normal(size=(30, 3)), RANDOM.normal(size=(4, 3))
    want = np.linalg.norm(points[:, None] - eyes, axis=2).min(axis=1)
    np.testing.assert_allclose(nearest_distance(points, eyes), want)
