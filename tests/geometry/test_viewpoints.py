"""Points that are on no camera ray are seen from the nearest camera."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.geometry import Camera, Cameras, Lens, Viewpoints

pytestmark = pytest.mark.usefixtures("on_the_cpu")
STEP, CONE = 0.01, 0.004
COUNT = 19  # more than are compared at the same time


@pytest.fixture(scope="module")
def cameras():
    eyes = np.random.default_rng(3).uniform(-3.0, 4.0, (COUNT, 3))
    lenses = [Lens.from_fov(0.3 + 0.05 * index, 64, 48) for index in range(COUNT)]
    return [
        Camera.look_at(eye, (0.5, 0.4, 0.6), (0, 0, 1), lens)
        for eye, lens in zip(eyes, lenses, strict=True)
    ]


def test_each_point_is_on_a_ray_of_the_nearest_camera(cameras):
    points = np.random.default_rng(4).uniform(-4.0, 5.0, (300, 3)).astype(np.float32)
    viewpoints = Viewpoints.of(Cameras.stack(cameras), STEP, CONE)._replace(train_frac=0.25)
    samples, rays = viewpoints.through(mx.array(points))
    eyes = np.stack([camera.pose[:, 3] for camera in cameras])
    away = np.linalg.norm(points[:, None] - eyes, axis=2)
    nearest = away.argmin(axis=1)
    assert len(set(nearest.tolist())) > 8
    distance = away.min(axis=1)
    np.testing.assert_allclose(np.array(samples.distance), distance, rtol=1e-5)
    np.testing.assert_allclose(
        np.array(samples.width), np.maximum(CONE * distance, STEP), rtol=1e-5
    )
    np.testing.assert_allclose(np.array(rays.origin), eyes[nearest], atol=1e-6)
    reached = np.array(rays.origin) + distance[:, None] * np.array(rays.direction)
    np.testing.assert_allclose(reached, points, atol=1e-5)
    focal = np.array([camera.lens.fl_x for camera in cameras])
    ratio = np.array(rays.radius) * focal[nearest]
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-5)
    assert np.array(rays.train_frac) == pytest.approx(0.25)
    assert np.array(samples.ray).tolist() == list(range(300))
    assert np.array(samples.ray_start).tolist() == list(range(301))


def test_without_cameras_points_are_seen_from_above_by_a_thin_ray():
    samples, rays = Viewpoints.of(None, STEP, 0.0).through(mx.array([[0.5, 0.5, 1.0]]))
    assert np.array(rays.origin).tolist() == [[0.5, 0.5, 2.5]]
    assert np.array(rays.direction).tolist() == [[0.0, 0.0, -1.0]]
    assert (samples.distance.item(), samples.width.item()) == (1.5, pytest.approx(STEP))
    assert not np.array(rays.radius).any()
