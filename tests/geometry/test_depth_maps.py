"""Depth images of sensors: distances along rays, and pixels at the edges of objects."""

import numpy as np
import pytest

from nerfmac import Lens
from nerfmac.geometry import DepthMaps, along_rays, trusted

LENS = Lens(width=80, height=60, fl_x=40.0, fl_y=30.0, cx=40.0, cy=30.0)


def test_a_distance_is_the_depth_times_the_length_of_the_pixels_direction():
    depth = np.full((6, 8), 2.0, np.float32)  # a tenth of the photo's resolution
    distance = along_rays(depth, LENS)
    x, y = (7.5 - 4.0) / 4.0, (0.5 - 3.0) / 3.0  # the upper right pixel
    np.testing.assert_allclose(distance[0, 7], 2.0 * np.sqrt(1.0 + x * x + y * y), rtol=1e-6)


def test_pixels_at_a_step_of_depth_are_unknown_and_those_of_slanted_planes_are_not():
    column = np.arange(16)
    plane = np.tile(1.0 / (0.5 + 0.01 * column), (9, 1)).astype(np.float32)
    sure = np.full(plane.shape, 0.5, np.float32)
    np.testing.assert_array_equal(trusted(plane, sure)[0], plane)

    stepped = np.where(column < 8, 1.0, 2.0) * np.ones((9, 1), np.float32)
    for image, along in ((stepped, 1), (stepped.T, 0)):
        distance, confidence = trusted(image, np.full(image.shape, 0.5, np.float32))
        is_unknown = (distance == 0).all(axis=1 - along)
        assert np.flatnonzero(is_unknown).tolist() == [6, 7, 8, 9]
        np.testing.assert_array_equal(confidence, 0.5 * (distance > 0))

    hole = plane.copy()
    hole[4, 5] = 0.0
    assert np.argwhere(trusted(hole, sure)[0] == 0.0).tolist() == [[4, 5]]


def test_known_distances_are_scaled_and_shifted_and_stay_positive():
    distance = np.array([[2.0, 0.5], [0.0, 0.1]], np.float32)
    maps = DepthMaps.stack([(distance, (distance > 0).astype(np.float32))]).moved(2.0, -0.5)
    assert np.array(maps.distances) == pytest.approx([3.5, 0.5, 0.0, 1e-3])
