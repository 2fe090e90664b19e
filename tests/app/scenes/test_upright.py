"""The up direction from the scene file or, by default, from the camera poses; orbits are level."""

import numpy as np
import pytest

from nerfmac.app.paths import orbit
from nerfmac.app.scenes import load_scene
from nerfmac.app.scenes.placement import leveling
from nerfmac.geometry.cameras import Camera
from nerfmac.geometry.lenses import Lens
from tests.app.scenes.scene_files import (
    LENS,
    write_unplaced,
)

Z, Y = np.array([0.0, 0.0, 1.0]), np.array([0.0, 1.0, 0.0])


def upright(up: np.ndarray) -> np.ndarray:
    """A rotation (3, 3) that takes z to `up`."""
    east = np.cross([0.3, 0.5, -0.8], up)
    east /= np.linalg.norm(east)
    return np.stack([east, np.cross(up, east), up], axis=1)


def ring(up, *, degrees: float = 360.0, height: float = 1.0, roll: float = 0.0, count: int = 24):
    """Matrices of cameras in an arc around `up`, looking at a point, rolled by up to `roll`."""
    random, rotation = np.random.default_rng(count), upright(np.asarray(up, np.float64))
    matrices = []
    for angle in np.radians(np.linspace(0.0, degrees, count, endpoint=False)):
        eye = (3 * np.cos(angle), 3 * np.sin(angle), height)
        sky = (*(np.radians(roll) * random.uniform(-1, 1, 2)), 1.0)
        pose = Camera.look_at(eye, (0.1, 0.2, 0.0), sky, Lens.from_fov(1.0, 24, 16)).pose
        matrices.append([*(rotation @ pose).tolist(), [0.0, 0.0, 0.0, 1.0]])
    return matrices


def capture(folder, matrices, **top):
    return load_scene(write_unplaced(folder, matrices, **LENS, **top))


def degrees_apart(one, other) -> float:
    return float(np.degrees(np.arccos(np.clip(np.dot(one, other), -1.0, 1.0))))


@pytest.mark.parametrize("up", [Y, Z, -Y, [0.6, 0.0, -0.8]], ids=str)
@pytest.mark.parametrize("height", [0.0, 2.0])
def test_a_level_ring_says_which_way_is_up_and_its_orbit_is_level(tmp_path, up, height):
    scene = capture(tmp_path, ring(up, height=height))
    assert degrees_apart(scene.up, up) < 0.1
    assert np.linalg.norm(scene.up) == pytest.approx(1.0)
    path = orbit([frame.camera for frame in scene.splits["train"]], up=scene.up, frames=12)
    heights = [camera.pose[:, 3] @ up for camera in path]
    assert np.ptp(heights) < 1e-2
    for camera in path:
        assert abs(camera.pose[:, 0] @ up) < 2e-3, "a frame of the orbit is not level"
        assert camera.pose[:, 1] @ up > 0.5, "a frame of the orbit is not upright"


@pytest.mark.parametrize(("degrees", "height"), [(360, 1.0), (90, 0.0), (120, 2.5)])
def test_hand_held_cameras_are_right_to_a_few_degrees_from_however_high(tmp_path, degrees, height):
    scene = capture(tmp_path, ring([0.6, 0.0, 0.8], degrees=degrees, height=height, roll=8.0))
    assert degrees_apart(scene.up, [0.6, 0.0, 0.8]) < 5.0


def test_parallel_cameras_are_taken_to_be_upright(tmp_path):
    rotation = upright(np.array([0.48, 0.6, 0.64]))[:, [0, 2, 1]] * [
        1,
        1,
        -1,
    ]  # y of the camera is up
    rows = [[*np.c_[rotation, [index, 0, 0]].tolist(), [0, 0, 0, 1]] for index in range(4)]
    assert degrees_apart(capture(tmp_path, rows).up, [0.48, 0.6, 0.64]) < 1e-3


def test_where_cameras_point_every_way_z_is_up(tmp_path):
    # Straight down, with every heading, as from a drone.
    rows = []
    for angle in np.radians(range(0, 360, 30)):
        c, s = np.cos(angle), np.sin(angle)
        rows.append([[c, -s, 0, c], [s, c, 0, s], [0, 0, 1, 5], [0, 0, 0, 1]])
    assert capture(tmp_path, rows).up == (0.0, 0.0, 1.0)


def test_the_file_s_own_word_goes_before_its_cameras(tmp_path):
    assert capture(tmp_path, ring(Y), up=[0, 0, -2]).up == (0.0, 0.0, -1.0)
    assert capture(tmp_path, ring(Y), orientation_override="none").up == (0.0, 0.0, 1.0)
    assert degrees_apart(capture(tmp_path, ring(Y), orientation_override="up").up, Y) < 0.1


@pytest.mark.parametrize("up", [(0, 0, 1), (0, -1, 0), (0.3, -0.8, 0.2), (0.2, 0.1, -0.9)])
def test_leveling_turns_up_to_z_and_is_a_rotation(up):
    up = np.array(up) / np.linalg.norm(up)
    rotation = leveling(np.array(ring(up))[:, :3])
    np.testing.assert_allclose(rotation @ up, Z, atol=1e-4)
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(3), atol=1e-9)
    assert np.linalg.det(rotation) == pytest.approx(1.0)


def test_cameras_that_stand_on_their_heads_are_turned_over():
    rotation = leveling(np.array(ring(-Z, height=0.0))[:, :3])
    np.testing.assert_allclose(rotation @ -Z, Z, atol=1e-4)
