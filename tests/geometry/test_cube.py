"""Where rays cross the scene's cube."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.backend import choose_device
from nerfmac.geometry.cube import crossing


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
    enter, leave = (np.array(each)[:, None] for each in crossing(*arrays, extent, near))
    distance = np.linspace(0.0, 4.0 * extent, 401)[None]
    points = origin[:, None] + direction[:, None] * distance[..., None]
    is_inside = (np.abs(points - 0.5) <= extent / 2).all(axis=2) & (distance >= near)
    is_between = (distance >= enter) & (distance <= leave)
    slack = 1e-5 * extent
    is_clear = (np.abs(distance - enter) > slack) & (np.abs(distance - leave) > slack)
    assert (is_inside == is_between)[is_clear].all()
    assert is_inside.any(axis=1).mean() > 0.1
    assert (~is_inside).all(axis=1).mean() > 0.2
