"""Moves of the camera on the page: the scene follows the pointer, and the horizon stays level."""

import math

import numpy as np
import pytest

from nerfmac.app.paths.view import CLOSEST, FARTHEST, View
from tests.app.viewer.standing import CENTER, EYE, FOV, UP, level, rolled, seen

STEEPEST = math.radians(89.0)


def elevation(view):
    return math.asin(np.clip(view.pose[:, 2] @ view.up, -1.0, 1.0))


def assert_upright(view):
    assert np.allclose(view.pose[:, :3].T @ view.pose[:, :3], np.eye(3), atol=1e-9)
    assert np.linalg.det(view.pose[:, :3]) > 0.0
    assert view.pose[:, 0] @ UP == pytest.approx(0.0, abs=1e-9), "it has roll"
    assert view.pose[:, 1] @ UP > 0.0, "it is upside down"


@pytest.mark.parametrize(("drag", "axis"), [((0.01, 0.0), 0), ((0.0, 0.01), 1)])
def test_what_is_in_front_follows_the_pointer(moved, drag, axis):
    in_front = 0.7 * CENTER + 0.3 * EYE
    for sign in (1.0, -1.0):
        turned = seen(moved(level(), "orbitView", *np.multiply(sign, drag)), in_front)
        assert sign * turned[axis] > 0.005
        assert abs(turned[1 - axis]) < 0.1 * abs(turned[axis])
        panned = seen(moved(level(), "panView", *np.multiply(sign, drag)), CENTER)
        assert panned == pytest.approx(np.multiply(sign, drag), abs=1e-9)


@pytest.mark.parametrize("drag", [(0.3, 0.2), (-1.7, 0.05), (0.0, 100.0), (100.1, -100.0)])
def test_orbiting_keeps_distance_and_horizon_and_the_center_in_the_middle(moved, drag):
    view = moved(level(), "orbitView", *drag)
    assert_upright(view)
    assert np.array_equal(view.center, CENTER)
    assert np.linalg.norm(view.pose[:, 3] - CENTER) == pytest.approx(np.linalg.norm(EYE - CENTER))
    assert np.allclose(seen(view, CENTER), 0.0, atol=1e-9)
    assert abs(elevation(view)) <= STEEPEST + 1e-9


@pytest.mark.parametrize("down", [0.6, -0.95, 1e9])
def test_over_the_pole_it_goes_no_further_and_comes_back(moved, down):
    steepest = moved(level(), "orbitView", 0.0, down)
    assert elevation(steepest) == pytest.approx(math.copysign(STEEPEST, down))
    further = moved(steepest, "orbitView", 0.0, 0.4 * down)
    assert np.allclose(further.pose, steepest.pose, atol=1e-9)
    back = moved(steepest, "orbitView", 0.0, math.copysign(STEEPEST, -down) / math.pi)
    heading = level().pose[:, 2] - (level().pose[:, 2] @ UP) * UP
    assert np.allclose(back.pose[:, 2], heading / np.linalg.norm(heading), atol=1e-9)


@pytest.mark.parametrize("down", [0.0, 0.1])
def test_orbiting_from_a_tilted_training_camera_takes_its_roll_and_no_more(moved, down):
    standing = level().stand(rolled(level(), 0.6))
    assert abs(standing.pose[:, 0] @ UP) > 0.2
    turned, want = (moved(view, "orbitView", 0.0, down) for view in (standing, level()))
    assert np.allclose(turned.pose, want.pose, atol=1e-9)


@pytest.mark.parametrize("roll", [0.0, 1.0, 4.0])
@pytest.mark.parametrize("tilt", [0.0, 0.005])
@pytest.mark.parametrize("side", [1.0, -1.0])
def test_a_camera_overhead_is_hardly_turned_by_the_first_move(moved, roll, tilt, side):
    # Straight up and down, where it looks along `up`, there is no roll to take.
    lean = np.cross(UP, [0.6, 0.0, 0.8])
    back = side * math.cos(tilt) * UP + math.sin(tilt) * lean / np.linalg.norm(lean)
    right = np.cross(back, [0.0, 0.6, 0.8])
    right /= np.linalg.norm(right)
    pose = np.c_[right, np.cross(back, right), back, CENTER + 2.0 * back]
    view = level().stand(rolled(View(pose, CENTER, UP, FOV), roll))
    turned = moved(view, "orbitView", 0.0, 0.0)
    assert_upright(turned)
    assert np.abs(turned.pose[:, :3] - view.pose[:, :3]).max() < 0.04  # 2 degrees and a bit


def test_dollying_closer_than_the_closest_goes_on_and_out_again(moved):
    view, forward = level(), -level().pose[:, 2]
    assert moved(view, "dollyView", 0.5).distance == pytest.approx(view.distance * math.exp(0.5))
    for _ in range(50):
        nearer = moved(view, "dollyView", -0.6)
        assert (nearer.pose[:, 3] - view.pose[:, 3]) @ forward > 0.02
        assert nearer.distance >= CLOSEST
        assert np.allclose(seen(nearer, nearer.center), 0.0, atol=1e-9)
        view = nearer
    assert (view.pose[:, 3] - CENTER) @ forward > 1.0, "it has stuck at the center"
    away = moved(view, "dollyView", 3.0).distance
    assert away == pytest.approx(CLOSEST * math.exp(3.0))


def test_keys_walk_along_the_cameras_axes_by_a_part_of_the_distance_each_second(moved):
    right, above, back = level().pose[:, :3].T
    view = moved(level(), "walkView", 0.5, -0.25, 2.0)
    step = 0.6 * level().distance * (0.5 * right - 0.25 * above - 2.0 * back)
    assert np.allclose(view.pose[:, 3], EYE + step)
    assert np.allclose(view.center, CENTER + step)
    assert np.allclose(view.pose[:, :3], level().pose[:, :3])


def test_all_of_a_travel_is_made_in_one_order(moved):
    travel = {"orbit": [0.1, -0.05], "pan": [0.2, 0.1], "dolly": 0.3, "walk": [0.1, 0.0, 0.4]}
    want = level()
    for kind, parts in travel.items():
        want = moved(want, f"{kind}View", *np.atleast_1d(parts))
    got = moved(level(), "travelView", travel)
    assert np.allclose(got.pose, want.pose, atol=1e-12)
    assert np.allclose(got.center, want.center, atol=1e-12)
    rest = {"orbit": [0, 0], "pan": [0, 0], "dolly": 0, "walk": [0, 0, 0]}
    assert moved(level(), "travelView", rest).to_json() == level().to_json()


@pytest.mark.parametrize("number", [100.0, -1e9, 1e200, -1e299])
@pytest.mark.parametrize("fov", [1e-3, FOV, 3.14])
def test_after_an_absurd_move_it_can_be_rendered_and_moved_back(moved, number, fov):
    start = level().with_fov(fov)
    there = [
        moved(start, "orbitView", number, -number),
        moved(start, "panView", number, -number),
        moved(start, "dollyView", number),
        moved(start, "walkView", number, number, -number),
        moved(start, "lookAt", np.clip([number, 1.0, -number], -1e15, 1e15)),
    ]
    for view in there:
        assert np.isfinite(view.camera(8, 6).pose).all()
        assert np.linalg.norm(view.pose[:, 3]) <= 2.0 * FARTHEST
        assert CLOSEST <= view.distance < 1e16
        back = moved(moved(view, "orbitView", 0.2, 0.1), "dollyView", -1.0)
        assert np.isfinite(back.pose).all()
