"""Fisheye lenses: OpenCV's model, there and back, also to the side of the camera."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.geometry.cameras import Camera, Cameras
from nerfmac.geometry.lenses import Lens, fisheye_directions
from nerfmac.geometry.rays import camera_rays

COEFFICIENTS = {
    "none": (0.0, 0.0, 0.0, 0.0),
    "action camera": (0.0356, 0.0071, -0.0034, 0.0005),
    "barrel": (-0.03, 0.004, 0.0, -1e-4),
}


def seen_at(angle: np.ndarray, side: np.ndarray, coefficients) -> np.ndarray:
    """Points (r, 2) of the directions at `angle` from the axis, toward `side` in the image."""
    distance = angle * (1 + sum(k * angle ** (2 * i) for i, k in enumerate(coefficients, start=1)))
    return np.stack([distance * np.cos(side), distance * np.sin(side)], axis=1)


@pytest.mark.parametrize("name", COEFFICIENTS)
def test_directions_up_to_a_right_angle_and_beyond_come_back(name):
    angle, side = np.meshgrid(np.radians([0.0, 1e-4, 5, 40, 70, 90, 97]), [0.0, 0.7, 2.5, -1.9])
    angle, side = angle.ravel(), side.ravel()
    point = mx.array(seen_at(angle, side, COEFFICIENTS[name]).astype(np.float32))
    got = np.array(fisheye_directions(point, mx.array([COEFFICIENTS[name]])))
    across = np.sin(angle)
    want = np.stack([across * np.cos(side), across * np.sin(side), np.cos(angle)], axis=1)
    np.testing.assert_allclose(got, want, atol=2e-6)


def test_points_that_no_direction_maps_to_stay_finite():
    point = mx.array([[9.0, -2.0], [1.6, 0.3], [0.0, 0.0]])
    got = np.array(fisheye_directions(point, mx.array([[-0.3, 0.0, 0.0, 0.0]])))
    assert np.isfinite(got).all()


def test_a_image_may_be_wider_than_half_a_turn():
    lens = Lens(200, 100, 60.0, 55.0, 101.0, 48.0, is_fisheye=True)  # 190 degrees wide
    direction = np.array(camera_rays(Camera(lens, np.eye(3, 4))).direction).reshape(100, 200, 3)
    assert direction[48, 199, 2] > 0.0, "behind the camera, which looks along -z"
    assert direction[48, 160, 2] < 0.0
    x, y = (160.5 - 101.0) / 60.0, (70.5 - 48.0) / 55.0
    angle = np.hypot(x, y)
    want = [np.sin(angle) * x / angle, -np.sin(angle) * y / angle, -np.cos(angle)]
    np.testing.assert_allclose(direction[70, 160], want, atol=1e-6)


def test_a_fisheye_beside_another_lens_keeps_its_kind():
    plain = Lens(20, 10, 30.0, 30.0, 10.0, 5.0)
    round_ = Lens(20, 10, 30.0, 30.0, 10.0, 5.0, 0.01, is_fisheye=True)
    cameras = Cameras.stack([Camera(each, np.eye(3, 4)) for each in (plain, round_)])
    assert (cameras.is_distorted, cameras.is_fisheye) == (True, True)
    assert [camera.lens.is_fisheye for camera in cameras] == [False, True]
    assert not Cameras.stack([Camera(plain, np.eye(3, 4))]).is_distorted
    assert round_.scaled(10, 5).is_fisheye
