"""Test cameras move by the similarity that moved the training cameras."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.geometry.cameras import Camera
from nerfmac.geometry.lenses import Lens
from nerfmac.refine.refinement import align_cameras, align_poses, moved_poses

pytestmark = pytest.mark.usefixtures("on_the_cpu")

LENS = Lens.from_fov(0.7, 20, 16)


def poses(count: int) -> np.ndarray:
    random = np.random.default_rng(count)
    eyes = random.normal(size=(count, 3)) + (2.0, 0.5, 0.1)
    return np.stack(
        [Camera.look_at(eye, (0.5, 0.4, 0.6), (0, 0.1, 1), LENS).pose for eye in eyes]
    ).astype(float)


def similar(given: np.ndarray) -> np.ndarray:
    """The poses turned by about 40 degrees, made 1.3 times as large, and shifted."""
    zero = np.zeros((1, 3, 4), np.float32)
    zero[0, :, :3] = np.eye(3)
    move = mx.array([[0.5, -0.3, 0.4, 0, 0, 0]])
    turn = np.array(moved_poses(mx.array(zero), move))[0, :, :3].astype(float)
    place = 1.3 * given[:, :, 3] @ turn.T + (0.2, -0.7, 0.1)
    return np.concatenate([turn @ given[:, :, :3], place[:, :, None]], axis=2)


@pytest.mark.parametrize("count", [2, 7])
def test_poses_move_by_the_similarity_that_moved_others(count):
    others = poses(5)
    got = align_poses(others, poses(count), similar(poses(count)))
    np.testing.assert_allclose(got, similar(others), atol=1e-6)


def test_one_camera_alone_says_how_to_turn_and_to_shift():
    given = poses(1)
    got = align_poses(given, given, similar(given))
    np.testing.assert_allclose(got, similar(given), atol=1e-6)


def test_what_all_cameras_moved_by_on_their_own_moves_no_other():
    given, random = poses(400), np.random.default_rng(1)
    moves = mx.array(random.normal(scale=0.02, size=(400, 6)).astype(np.float32))
    refined = np.array(moved_poses(mx.array(given.astype(np.float32)), moves)).astype(float)
    others = poses(5)
    assert np.abs(align_poses(others, given, refined) - others).max() < 0.01


def test_cameras_follow_others_that_stay(scene):
    cameras, train = scene.views("test").cameras, scene.views("train").cameras
    aligned = align_cameras(cameras, train, train)
    np.testing.assert_allclose(aligned.poses, cameras.poses, atol=1e-5)
    assert mx.array_equal(aligned.intrinsics, cameras.intrinsics)
