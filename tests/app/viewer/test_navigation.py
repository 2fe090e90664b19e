"""The scene follows the pointer, and the horizon stays level."""

import math

import numpy as np
import pytest

from nerfmac import Camera, InputError
from nerfmac.app.paths import orbit
from nerfmac.app.paths.view import CLOSEST, FARTHEST, STEEPEST, View
from nerfmac.geometry.bounds import Sphere
from tests.app.viewer.standing import CENTER, EYE, FOV, LENS, UP, level, rolled, seen


def elevation(view: View) -> float:
    return math.asin(np.clip(view.pose[:, 2] @ view.up, -1.0, 1.0))


def assert_upright(view: View) -> None:
    assert np.allclose(view.pose[:, :3].T @ view.pose[:, :3], np.eye(3), atol=1e-9)
    assert np.linalg.det(view.pose[:, :3]) > 0.0
    assert view.pose[:, 0] @ UP == pytest.approx(0.0, abs=1e-9), "it has roll"
    assert view.pose[:, 1] @ UP > 0.0, "it is upside down"


def in_front(view: View) -> np.ndarray:
    """A point between the center and the camera."""
    return 0.7 * view.center + 0.3 * view.pose[:, 3]


@pytest.mark.parametrize(("drag", "axis"), [((0.01, 0.0), 0), ((0.0, 0.01), 1)])
def test_when_orbiting_what_is_in_front_follows_the_pointer(drag, axis):
    for sign in (1.0, -1.0):
        moved = seen(level().orbit(*np.multiply(sign, drag)), in_front(level()))
        assert sign * moved[axis] > 0.005
        assert abs(moved[1 - axis]) < 0.1 * abs(moved[axis])


@pytest.mark.parametrize("drag", [(0.3, 0.2), (-1.7, 0.05), (0.0, 100.0), (100.1, -100.0)])
def test_orbiting_keeps_distance_and_horizon_and_the_center_in_the_middle(drag):
    view = level().orbit(*drag)
    assert_upright(view)
    assert np.array_equal(view.center, CENTER)
    assert np.linalg.norm(view.pose[:, 3] - CENTER) == pytest.approx(np.linalg.norm(EYE - CENTER))
    assert np.allclose(seen(view, CENTER), 0.0, atol=1e-9)
    assert abs(elevation(view)) <= STEEPEST + 1e-9


@pytest.mark.parametrize("down", [0.6, -0.95, 1e9])
def test_over_the_pole_it_goes_no_further_and_comes_back(down):
    steepest = level().orbit(0.0, down)
    assert elevation(steepest) == pytest.approx(math.copysign(STEEPEST, down))
    assert np.allclose(steepest.orbit(0.0, 0.4 * down).pose, steepest.pose, atol=1e-9)
    back = steepest.orbit(0.0, math.copysign(STEEPEST, -down) / math.pi)
    heading = level().pose[:, 2] - (level().pose[:, 2] @ UP) * UP
    assert np.allclose(back.pose[:, 2], heading / np.linalg.norm(heading), atol=1e-9)


@pytest.mark.parametrize("down", [0.0, 0.1])
def test_orbiting_from_a_tilted_training_camera_takes_its_roll_and_no_more(down):
    pose = rolled(level(), 0.6)
    standing = level().stand(pose)
    assert np.array_equal(standing.pose, pose)
    assert np.allclose(standing.center, pose[:, 3] - level().distance * pose[:, 2])
    assert abs(standing.pose[:, 0] @ UP) > 0.2
    assert np.allclose(standing.orbit(0.0, down).pose, level().orbit(0.0, down).pose, atol=1e-9)


@pytest.mark.parametrize("roll", [0.0, 1.0, 4.0])
@pytest.mark.parametrize("tilt", [0.0, 0.005])
@pytest.mark.parametrize("side", [1.0, -1.0])
def test_a_camera_overhead_is_hardly_turned_by_the_first_move(roll, tilt, side):
    # Straight up and down, where it looks along `up`, there is no roll to take.
    lean = np.cross(UP, [0.6, 0.0, 0.8])
    back = side * math.cos(tilt) * UP + math.sin(tilt) * lean / np.linalg.norm(lean)
    right = np.cross(back, [0.0, 0.6, 0.8])
    right /= np.linalg.norm(right)
    pose = np.c_[right, np.cross(back, right), back, CENTER + 2.0 * back]
    view = level().stand(rolled(View(pose, CENTER, UP, FOV), roll))
    moved = view.orbit(0.0, 0.0)
    assert_upright(moved)
    assert np.abs(moved.pose[:, :3] - view.pose[:, :3]).max() < 0.04  # 2 degrees and a bit


def test_dollying_closer_than_the_closest_goes_on_and_out_again():
    view, forward = level(), -level().pose[:, 2]
    for _ in range(100):
        nearer = view.dolly(-0.3)
        assert (nearer.pose[:, 3] - view.pose[:, 3]) @ forward > 0.02
        assert nearer.distance >= CLOSEST
        assert np.allclose(seen(nearer, nearer.center), 0.0, atol=1e-9)
        view = nearer
    assert (view.pose[:, 3] - CENTER) @ forward > 1.0, "it has stuck at the center"
    assert view.dolly(3.0).distance == pytest.approx(CLOSEST * math.exp(3.0))


def test_keys_walk_along_the_cameras_axes_for_seconds_times_speed():
    right, above, back = level().pose[:, :3].T
    view = level().walk(0.5, -0.25, 2.0, 3.0)
    step = 1.5 * right - 0.75 * above - 6.0 * back
    assert np.allclose(view.pose[:, 3], EYE + step)
    assert np.allclose(view.center, CENTER + step)
    assert np.array_equal(view.pose[:, :3], level().pose[:, :3])


@pytest.mark.parametrize("point", [(1.0, 2.0, 0.5), EYE + 2.0 * UP, EYE - UP, EYE + [0.0, 0.0, 9]])
def test_what_is_looked_at_is_the_middle_and_the_center(point):
    view = level().look_at(point)
    assert np.allclose(seen(view, point), 0.0, atol=1e-9)
    assert np.array_equal(view.center, point)
    assert np.allclose(view.pose[:, 3], EYE)
    assert view.pose[:, 0] @ UP == pytest.approx(0.0, abs=1e-9)
    assert_upright(view.orbit(0.1, 0.0))


def test_the_camera_has_the_vertical_field_of_view_and_the_views_pose():
    camera = level().with_fov(1.1).camera(50, 30)
    lens = camera.lens
    assert (lens.width, lens.height, lens.cx, lens.cy) == (50, 30, 25.0, 15.0)
    assert lens.fl_x == lens.fl_y == pytest.approx(15.0 / math.tan(0.55))
    assert not any(lens.distortion)
    assert np.allclose(camera.pose, level().pose, atol=1e-6)


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


@pytest.mark.parametrize("radius", [0.25, 0.35])
def test_a_subject_is_the_center_of_the_first_view_and_fills_half_of_its_height(radius):
    subject = Sphere(tuple(CENTER + [0.2, -0.1, 0.15]), radius)
    view = View.initial(rig([0, 50, 140, 170, 260, 300], False), UP, subject)
    assert np.allclose(view.center, subject.center)
    assert np.allclose(seen(view, view.center), 0.0, atol=1e-6)
    height = 2.0 * view.distance * math.tan(0.5 * view.fov)
    assert 2.0 * radius / height == pytest.approx(0.5)


@pytest.mark.parametrize(("radius", "factor"), [(0.01, 0.5), (50.0, 1.0)])
def test_the_first_view_stays_where_photos_were_taken(radius, factor):
    cameras = rig([0, 50, 140, 170, 260, 300], False)
    far = View.initial(cameras, UP).distance
    view = View.initial(cameras, UP, Sphere(tuple(CENTER), radius))
    assert view.distance == pytest.approx(factor * far, rel=1e-4)


def test_the_first_view_of_a_panorama_has_its_center_ahead():
    view = View.initial(rig([0, 50, 140, 170, 260, 300], True, scale=0.01), UP)
    assert np.allclose(seen(view, view.center), 0.0, atol=1e-6)
    assert np.linalg.norm(view.center - view.pose[:, 3]) == pytest.approx(CLOSEST)


@pytest.mark.parametrize("number", [100.0, -1e9, 1e200, -1e299])
@pytest.mark.parametrize("fov", [1e-3, FOV, 3.14])
def test_after_an_absurd_move_it_can_be_rendered_and_moved_back(number, fov):
    start = level().with_fov(fov)
    moves = [
        start.orbit(number, -number),
        start.pan(number, -number),
        start.dolly(number),
        start.walk(number, number, -number, number),
        start.look_at(np.clip([number, 1.0, -number], -1e15, 1e15)),
        start.dolly(number).pan(number, number).dolly(-number).dolly(number).orbit(number, number),
    ]
    for view in moves:
        camera = view.camera(8, 6)
        assert np.isfinite(camera.pose).all()
        assert np.linalg.norm(view.pose[:, 3]) <= 2.0 * FARTHEST
        assert CLOSEST <= view.distance < 1e16
        assert np.isfinite(view.orbit(0.2, 0.1).dolly(-1.0).pan(0.1, 0.1).pose).all()


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_not_finite_are_refused(number):
    view, holed = level(), np.full((3, 4), number)
    asks = {
        "right": [lambda: view.orbit(number, 0.0), lambda: view.walk(number, 0.0, 0.0, 1.0)],
        "down": [lambda: view.orbit(0.0, number), lambda: view.pan(0.0, number)],
        "log_factor": [lambda: view.dolly(number)],
        "forward": [lambda: view.walk(0.0, 0.0, number, 1.0)],
        "speed": [lambda: view.walk(0.0, 0.0, 0.0, number)],
        "point": [lambda: view.look_at((0.0, number, 0.0))],
        "pose": [lambda: view.stand(holed), lambda: View(holed, CENTER, UP, FOV)],
        "center": [lambda: View(view.pose, (0.0, number, 0.0), UP, FOV)],
        "up": [lambda: View(view.pose, CENTER, (0.0, number, 0.0), FOV)],
        "fov": [lambda: view.with_fov(number)],
    }
    for name, calls in asks.items():
        for call in calls:
            with pytest.raises(InputError, match=name):
                call()


def test_standing_in_a_training_camera_takes_its_pose_with_the_center_as_far_ahead():
    pose = rolled(level().orbit(0.3, -0.1).pan(0.4, 0.2), 0.4)
    view = level().stand(pose)
    assert np.array_equal(view.pose, pose)
    assert np.allclose(view.center, pose[:, 3] - level().distance * pose[:, 2])
    assert view.fov == FOV
