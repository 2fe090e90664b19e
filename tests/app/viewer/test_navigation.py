"""The first view of a scene, and views of a point or from a training camera."""

import math

import numpy as np
import pytest

from nerfmac import Camera
from nerfmac.app.paths import orbit
from nerfmac.app.paths.view import CLOSEST, View
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
def test_the_first_view_is_the_first_of_the_path_around_the_scene(degrees, outwards):
    cameras = rig(degrees, outwards)
    view, first = View.initial(cameras, 2.5 * UP), orbit(cameras, up=UP, frames=7)[0]
    if len(degrees) == 6:  # a full orbit begins anywhere in it; a swing in its middle
        assert np.allclose(view.pose, first.pose, atol=1e-6)
    lens = view.camera(first.lens.width, first.lens.height).lens
    assert lens.fl_y == pytest.approx(first.lens.fl_y)
    assert np.allclose(view.up, UP)
    assert np.allclose(seen(view, view.center), 0.0, atol=1e-6)
    distance = np.linalg.norm(view.pose[:, 3] - CENTER)
    assert view.distance == pytest.approx(distance, abs=1e-5)
    if not outwards:
        assert np.allclose(view.center, CENTER, atol=1e-5)


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
