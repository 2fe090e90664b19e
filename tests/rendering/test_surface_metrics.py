"""Metrics of surfaces on planted depths, normals, and points with known errors."""

import numpy as np
import pytest

from nerfmac.rendering.surface_metrics import depth_errors, normal_angles


def test_depth_errors_are_relative_to_the_true_distance_and_have_no_sign():
    distance = np.concatenate([np.full(50, 2.0), np.full(50, 40.0)])
    planted = np.tile([-0.01, 0.02, 0.03, -0.04, 0.5], 20)
    errors = depth_errors(distance * (1.0 + planted), distance)
    assert errors.median == pytest.approx(0.03)
    assert errors.p90 == pytest.approx(0.5)
    assert errors.number == 100
    assert depth_errors(distance * 1.0299, distance).within_3_percent == 1.0
    assert depth_errors(distance * (1.0 + planted * 0.99), distance).within_3_percent == 0.6


def test_a_pixel_in_which_nothing_was_seen_has_an_error_of_all_its_distance():
    errors = depth_errors(np.array([0.0, 0.0, 3.0]), np.array([1.0, 7.0, 3.0]))
    assert (errors.median, errors.within_3_percent) == (1.0, pytest.approx(1 / 3))
    assert depth_errors(np.zeros(0), np.zeros(0)) is None


def test_angles_of_normals_do_not_depend_on_their_length():
    angle = np.radians([0.0, 30.0, 90.0, 180.0])
    truth = np.tile([0.0, 0.0, 2.0], (4, 1))
    normal = 0.3 * np.stack([np.sin(angle), 0.0 * angle, np.cos(angle)], axis=1)
    np.testing.assert_allclose(normal_angles(normal, truth), [0.0, 30.0, 90.0, 180.0], atol=1e-5)
    assert normal_angles(np.zeros((1, 3)), truth[:1]) == 90.0
