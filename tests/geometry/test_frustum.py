"""What a view may see: places on its pixels' rays are inside, places beside and behind are not."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.geometry.cameras import Camera, Cameras
from nerfmac.geometry.frustum import frustum_of, reaches
from nerfmac.geometry.lenses import Lens
from nerfmac.geometry.rays import camera_rays

POSE = Camera.look_at((0.2, -0.3, 0.5), (1.0, 0.4, 0.1), (0.1, 0.2, 1.0), Lens.from_fov(1, 2, 2))
# Wider than high, off the middle, and neither of the two sides like the other.
LENS = {"width": 40, "height": 30, "fl_x": 25.0, "fl_y": 31.0, "cx": 13.0, "cy": 17.0}


@pytest.fixture(autouse=True)
def on_the_cpu():
    mx.set_default_device(mx.cpu)


def inside(camera: Camera, place: mx.array, radius: float = 1e-6) -> np.ndarray:
    frustum = frustum_of(Cameras.stack([camera]), 0)
    return np.array(reaches(place, mx.full((len(place),), radius), frustum))


@pytest.mark.parametrize("bent", [{}, {"k1": -0.3}, {"k1": 0.2, "p1": 0.01}, {"k1": -0.9}], ids=str)
def test_every_pixel_s_ray_is_inside_from_its_beginning_on(bent):
    camera = Camera(Lens(**LENS, **bent), POSE.pose)
    rays = camera_rays(camera)
    for distance in (0.001, 1.0, 50.0):
        assert inside(camera, rays.origin + distance * rays.direction).all()


def test_places_past_a_tenth_of_a_pinhole_s_picture_are_outside_on_each_side():
    camera = Camera(Lens(**LENS), POSE.pose)
    column = np.array([-4.1, -3.9, 43.9, 44.1, 13, 13, 13, 13])
    row = np.array([17, 17, 17, 17, -3.1, -2.9, 32.9, 33.1])
    local = np.stack([(column - 13) / 25, (17 - row) / 31, -np.ones(8)], axis=1)
    place = POSE.pose[:, 3] + 3.0 * local @ POSE.pose[:, :3].T
    got = inside(camera, mx.array(place.astype(np.float32)))
    assert got.tolist() == [False, True, True, False, False, True, True, False]


def test_a_ball_reaches_in_from_as_far_as_its_radius():
    camera = Camera(Lens(40, 40, 20.0, 20.0, 20.0, 20.0), np.eye(3, 4))
    slope = 1.0 + 0.2  # half the picture, and the margin, at depth one
    normal = np.array([1.0, 0.0, slope]) / np.hypot(1.0, slope)  # of the side to the right
    edge = np.array([2.0 * slope, 0.0, -2.0])
    for radius in (0.1, 0.7):
        places = [edge + 0.99 * radius * normal, edge + 1.01 * radius * normal]
        places += [(0.0, 0.0, 0.99 * radius), (0.0, 0.0, 1.01 * radius)]  # behind the camera
        got = inside(camera, mx.array(np.array(places, np.float32)), radius)
        assert got.tolist() == [True, False, True, False]
