"""Normals of densities with known gradients."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.rendering.normals import normals

POINTS = np.random.default_rng(2).uniform(0.1, 0.9, (200, 3))
TILT = np.array([0.48, -0.6, 0.64])


def found(density, points=POINTS, reach=0.01) -> np.ndarray:
    return np.array(
        normals(density, mx.array(points, mx.float32), mx.full((len(points),), reach, mx.float32))
    )


@pytest.mark.parametrize("steepness", [0.5, 30.0, 400.0])
def test_a_tilted_slope_faces_where_it_falls(steepness):
    def density(position):
        height = ((position - 0.5) * mx.array(TILT, mx.float32)).sum(axis=1)
        return 50.0 * mx.exp(-steepness * height)

    height = (POINTS - 0.5) @ TILT
    near = POINTS - (1.0 - 1.5 / steepness) * height[:, None] * TILT
    assert found(density, near) == pytest.approx(np.tile(TILT, (len(near), 1)), abs=2e-3)


def test_a_balls_normals_point_away_from_its_middle():
    middle = np.array([0.3, 0.55, 0.7])

    def density(position):
        offset = position - mx.array(middle, mx.float32)
        return 100.0 * mx.exp(-40.0 * mx.square(offset).sum(axis=1))

    # Farther out there is next to nothing.
    points = POINTS[np.linalg.norm(POINTS - middle, axis=1) < 0.4]
    want = (points - middle) / np.linalg.norm(points - middle, axis=1, keepdims=True)
    assert found(density, points) == pytest.approx(want, abs=5e-3)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_flat_face_is_seen_as_flat(axis, sign):
    def density(position):
        return mx.where(sign * (position[:, axis] - 0.5) < 0.0, 3e3, 0.0)

    points = POINTS.copy()
    points[:, axis] = 0.5 - sign * 0.004  # a little inside, nearer than the reach
    want = np.zeros_like(points)
    want[:, axis] = sign
    assert found(density, points) == pytest.approx(want, abs=1e-6)


def test_where_nothing_changes_the_normal_is_zero():
    for value in (0.0, 7.0, 5e4):
        flat = found(lambda position, value=value: mx.full((position.shape[0],), value))
        assert np.abs(flat).max() < 0.1


def test_nothing_farther_than_the_reach_is_looked_at():
    def density(position):
        return mx.where(mx.abs(position[:, 1] - 0.5) > 0.02, 100.0, 1.0)

    flat = POINTS * [1, 0, 1] + [0, 0.5, 0]
    assert np.abs(found(density, flat, reach=0.019)).max() < 0.1
    aside = flat + [0, 0.005, 0]
    assert found(density, aside, reach=0.019) == pytest.approx(np.tile([0, -1, 0], (200, 1)))
