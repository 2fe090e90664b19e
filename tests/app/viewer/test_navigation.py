"""The first view of a scene, and views of a point or from a training camera."""

import math

import numpy as np
import pytest

from nerfmac import Camera
from nerfmac.app.paths.rig import best_framed
from nerfmac.app.paths.view import CLOSEST, View
from nerfmac.geometry.bounds import Sphere
from tests.app.viewer.standing import CENTER, FOV, LENS, UP, level, rolled, seen


def rig(degrees, outwards: bool, scale: float = 1.8) -> list[Camera]:
    """Cameras around CENTER and above it, that look at it or away from it."""
    east = np.cross([0.6, 0.48, 0.64], UP)
    east /= np.linalg.norm(east)
    north = np.cross(UP, east)
    places = [math.cos(a) * east + math.sin(a) * north + 0.4 * UP for a in np.radians(degrees)]
    eyes = [CENTER + scale * place for place in places]
    targets = [2.0 * eye - CENTER if outwards else CENTER for eye in eyes]
    return [Camera.look_at(eye, at, UP, LENS) for eye, at in zip(eyes, targets, strict=True)]


@pytest.mark.parametrize("outwards", [False, True])
@pytest.mark.parametrize("degrees", [[0, 50, 140, 170, 260, 300], [330, 350, 20, 55]])
def test_the_first_view_is_that_of_a_photo_with_a_level_horizon(degrees, outwards):
    cameras = rig(degrees, outwards)
    view = View.initial(cameras, 2.5 * UP)
    eyes = np.stack([camera.pose[:, 3] for camera in cameras])
    assert np.abs(eyes - view.pose[:, 3]).max(axis=1).min() < 1e-6
    assert view.camera(48, 36).lens.fl_y == pytest.approx(LENS.fl_y * 36 / LENS.height)
    assert np.allclose(view.up, UP)
    assert view.pose[:, 0] @ UP == pytest.approx(0.0, abs=1e-6)
    assert np.allclose(seen(view, view.center), 0.0, atol=1e-6)
    if not outwards:
        assert np.allclose(view.center, CENTER, atol=1e-5)


def test_the_first_view_looks_at_the_subject_from_the_position_of_a_photo():
    cameras, subject = rig([0, 50, 140, 170, 260, 300], False), CENTER + [0.2, -0.1, 0.15]
    view = View.initial(cameras, UP, Sphere(tuple(subject), 0.3))
    assert np.allclose(view.center, subject)
    assert np.allclose(seen(view, subject), 0.0, atol=1e-6)
    assert min(np.abs(camera.pose[:, 3] - view.pose[:, 3]).max() for camera in cameras) < 1e-6


@pytest.mark.parametrize("fault", ["aside", "rolled", "near", "far", "high"])
def test_the_photo_that_frames_the_scene_best_has_no_fault(fault):
    cameras = rig(range(0, 360, 30), False)

    def spoiled(camera: Camera) -> Camera:
        eye, up = camera.pose[:, 3].astype(float), UP
        away, right = eye - CENTER, camera.pose[:, 0]
        at = CENTER + 0.4 * np.linalg.norm(away) * right if fault == "aside" else CENTER
        factor = {"near": 0.5, "far": 2.0}.get(fault, 1.0)
        if fault == "high":
            length = np.linalg.norm(away)
            away = away + length * UP
            away *= length / np.linalg.norm(away)
        if fault == "rolled":
            up = UP + 0.5 * right
        return Camera.look_at(CENTER + factor * away, at, up, LENS)

    def turned(camera: Camera) -> Camera:  # A little, so that no fault is a tie.
        return Camera.look_at(camera.pose[:, 3], CENTER, UP + 0.05 * camera.pose[:, 0], LENS)

    chosen = {0, 4, 8}
    mixed = [spoiled(c) if index in chosen else turned(c) for index, c in enumerate(cameras)]
    assert best_framed(mixed, UP, CENTER) not in chosen


def test_the_best_photo_of_one_side_is_in_the_middle():
    cameras = rig([330, 345, 0, 20, 30], False)
    assert best_framed(cameras, UP, CENTER) == 2


def test_the_first_view_of_a_panorama_has_its_center_ahead():
    view = View.initial(rig([0, 50, 140, 170, 260, 300], True, scale=0.01), UP)
    assert np.allclose(seen(view, view.center), 0.0, atol=1e-6)
    assert np.linalg.norm(view.center - view.pose[:, 3]) == pytest.approx(CLOSEST)


def test_standing_in_a_training_camera_takes_its_pose_with_the_center_as_far_ahead():
    pose = rolled(level(), 0.4)
    view = level().stand(pose)
    assert np.array_equal(view.pose, pose)
    assert np.allclose(view.center, pose[:, 3] - level().distance * pose[:, 2])
    assert view.fov == FOV
