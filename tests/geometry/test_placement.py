"""A placement maps positions, directions, and boxes of a file to the scene and back."""

import numpy as np

from nerfmac.geometry import Placement

TURN = np.array([[0.0, -0.6, 0.8], [1.0, 0.0, 0.0], [0.0, 0.8, 0.6]])
PLACEMENT = Placement(0.4, np.array([0.5, -1.0, 2.0]), 2.0, TURN)
POINTS = np.random.default_rng(3).uniform(-5.0, 5.0, (20, 3))


def test_positions_and_directions_return_to_the_file():
    expected = [0.4 * TURN @ point + PLACEMENT.offset for point in POINTS]
    np.testing.assert_allclose(PLACEMENT.to_scene(POINTS), expected)
    np.testing.assert_allclose(PLACEMENT.to_file(PLACEMENT.to_scene(POINTS)), POINTS)
    np.testing.assert_allclose(PLACEMENT.turned_to_scene((1.0, 0.0, 0.0)), TURN[:, 0])
    np.testing.assert_allclose(PLACEMENT.turned_to_file(TURN[:, 0]), (1.0, 0.0, 0.0), atol=1e-12)


def test_a_pose_moves_like_its_position_and_turns_like_its_axes():
    pose = np.column_stack([np.eye(3), POINTS[0]])
    placed = PLACEMENT.apply(pose)
    np.testing.assert_allclose(placed[:, 3], PLACEMENT.to_scene(POINTS[0]), rtol=1e-6)
    np.testing.assert_allclose(placed[:, :3], TURN, rtol=1e-6)


def test_a_box_of_the_scene_has_a_box_of_the_file_around_it():
    low, high = PLACEMENT.box_to_file([0.0, 0.0, 0.0], [1.0, 2.0, 3.0])
    corners = PLACEMENT.to_file(np.stack(np.meshgrid([0, 1], [0, 2], [0, 3]), axis=-1))
    np.testing.assert_allclose(low, corners.reshape(-1, 3).min(axis=0))
    np.testing.assert_allclose(high, corners.reshape(-1, 3).max(axis=0))
