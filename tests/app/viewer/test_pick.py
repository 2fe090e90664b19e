"""The scene point at an image position, for artificial depth maps."""

from types import SimpleNamespace

import numpy as np
import pytest

from nerfmac.app.viewer.screen_image import ScreenImage
from nerfmac.geometry.cameras import Camera
from nerfmac.geometry.lenses import Lens

CAMERA = Camera.look_at((1.5, -0.4, 0.8), (0.5, 0.6, 0.4), (0, 0, 1), Lens(20, 12, 17, 19, 8, 7))


def image(depth):
    return SimpleNamespace(camera=CAMERA, drawn=SimpleNamespace(depth=np.float32(depth)))


def place_of(point):
    """Column, row and distance of a point."""
    pose, lens = CAMERA.pose.astype(float), CAMERA.lens
    x, y, z = pose[:, :3].T @ (point - pose[:, 3])
    return lens.fl_x * x / -z + lens.cx, lens.cy - lens.fl_y * y / -z, np.linalg.norm((x, y, z))


@pytest.mark.parametrize(("x", "y"), [(0.0, 0.0), (0.31, 0.77), (1.0, 1.0)])
def test_the_point_lies_at_the_place_and_in_the_depth_that_is_seen(x, y):
    row, column = np.indices((12, 20))
    depth = 1.0 + 0.01 * row + 0.003 * column
    point = ScreenImage.point_at(image(depth), x, y, otherwise=9.0)
    assert place_of(point)[:2] == pytest.approx((20 * x, 12 * y), abs=1e-4)
    near = depth[min(int(12 * y), 11), min(int(20 * x), 19)]
    assert place_of(point)[2] == pytest.approx(near, abs=0.03)


def test_beside_a_thin_thing_the_thing_is_meant():
    depth = np.zeros((12, 20))
    depth[:, 9] = 2.5
    assert place_of(ScreenImage.point_at(image(depth), 11.5 / 20, 0.5, otherwise=9.0))[
        2
    ] == pytest.approx(2.5)


def test_where_nothing_is_seen_the_point_is_as_far_as_asked_for():
    point = ScreenImage.point_at(image(np.zeros((12, 20))), 0.3, 0.6, otherwise=1.7)
    assert place_of(point) == pytest.approx((6.0, 7.2, 1.7), abs=1e-4)
