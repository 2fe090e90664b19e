"""The differences of poses that `scripts/judge_captures.py` measures."""

import numpy as np
import pytest
from pose_differences import differences

from tests.app.scenes.scene_files import matrix


def moved(poses, *, seed=6, scale=3.0):
    """Return poses (n, 3, 4) in the coordinates of a similarity."""
    turn = np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))[0]
    turn *= np.sign(np.linalg.det(turn))
    found = np.concatenate([turn @ poses[:, :, :3], scale * turn @ poses[:, :, 3:]], axis=2)
    found[:, :, 3] += [1, 2, 3]
    return found


def turned(degrees):
    c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    return np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])


POSES = np.array([matrix(index) for index in range(9)])[:, :3]


def test_a_similarity_is_no_difference():
    away, degrees = differences(moved(POSES), POSES)
    assert away.max() < 1e-9
    assert degrees.max() < 1e-6


def test_one_camera_that_is_elsewhere_is_seen():
    found = moved(POSES)
    found[4, :, 3] += 0.3
    found[7, :, :3] = found[7, :, :3] @ turned(4.0)
    away, degrees = differences(found, POSES)
    assert (away.argmax(), degrees.argmax()) == (4, 7)
    assert away[4] == pytest.approx(0.3 * np.sqrt(3) / 3 / 3.2, rel=0.3)
    assert degrees[7] == pytest.approx(4.0, abs=0.6)
