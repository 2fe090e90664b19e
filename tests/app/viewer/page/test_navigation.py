"""The page moves its view as `nerfmac.app.paths.view.View` does, number by number."""

import math

import numpy as np
import pytest

from nerfmac.app.paths.view import CLOSEST, FARTHEST, View
from tests.app.viewer.standing import CENTER, EYE, FOV, UP, level, rolled

NAVIGATION = "motion/navigation"
OVERHEAD = View(np.c_[np.eye(3), [0.4, 0.7, 2.0]], (0.4, 0.7, -0.3), (0.0, 0.0, 1.0), 1.0)
START = {
    "level": level(),
    "rolled": level().stand(rolled(level(), 0.6)),
    "overhead": OVERHEAD,
    "close": level().dolly(-9.0),
    "far": level().look_at(EYE + [0.0, 1.1 * FARTHEST, 0.0]).orbit(1.0, 0.0),
}
MOVES = {
    "orbitView": (View.orbit, [(0.03, -0.01), (-1.7, 0.2), (0.0, 100.0), (1e9, -1e9)]),
    "panView": (View.pan, [(0.2, 0.0), (-0.3, 0.4), (1e200, -1e9)]),
    "dollyView": (View.dolly, [(0.3,), (-0.4,), (-30.0,), (1e9,)]),
    "walkView": (
        lambda view, *seconds: view.walk(*seconds, 0.6 * view.distance),
        [(0.5, -0.25, 2.0), (0.0, 1e9, -3.0)],
    ),
    "lookAt": (
        lambda view, *point: view.look_at(point),
        [(1.0, 2.0, 0.5), tuple(EYE + 2.0 * UP), (1e6, 2.0, -1e7)],
    ),
}


@pytest.mark.parametrize("start", START)
@pytest.mark.parametrize("name", MOVES)
def test_each_move_leads_where_the_kernels_would(call, name, start):
    move, travels = MOVES[name]
    for travel in travels:
        want = move(START[start], *travel)
        given = [list(travel)] if name == "lookAt" else list(travel)
        moved = call(NAVIGATION, name, START[start].to_json(), *map(plain, given))
        size = max(np.abs(want.pose).max(), np.abs(want.center).max(), 1.0)
        assert np.reshape(moved["pose"], (3, 4)) == pytest.approx(want.pose, abs=1e-9 * size)
        assert moved["center"] == pytest.approx(want.center, abs=1e-9 * size)
        assert (moved["up"], moved["fov"]) == (want.up.tolist(), want.fov)


def plain(value):
    """A number or a list of numbers without NumPy's types."""
    return np.asarray(value, float).tolist()


def test_all_of_a_travel_is_made_in_the_order_of_the_kernels(call):
    travel = {"orbit": [0.1, -0.05], "pan": [0.2, 0.1], "dolly": 0.3, "walk": [0.1, 0.0, 0.4]}
    want = level().orbit(0.1, -0.05).pan(0.2, 0.1).dolly(0.3)
    want = want.walk(0.1, 0.0, 0.4, 0.6 * want.distance)
    moved = call(NAVIGATION, "travelView", level().to_json(), travel)
    assert np.reshape(moved["pose"], (3, 4)) == pytest.approx(want.pose, abs=1e-9)
    rest = {"orbit": [0, 0], "pan": [0, 0], "dolly": 0, "walk": [0, 0, 0]}
    assert call(NAVIGATION, "travelView", OVERHEAD.to_json(), rest) == OVERHEAD.to_json()


def test_nobody_looks_at_the_place_where_the_camera_is(call):
    assert call(NAVIGATION, "lookAt", level().to_json(), EYE.tolist()) == level().to_json()


@pytest.mark.parametrize("size", [(640, 480), (123, 457)])
def test_the_lens_and_the_distance_are_the_kernels(call, size):
    lens = level().camera(*size).lens
    want = [lens.fl_x / size[0], lens.fl_y / size[1], 0.5, 0.5]
    assert call(NAVIGATION, "viewLens", level().to_json(), *size) == pytest.approx(want)
    distance = call(NAVIGATION, "centerDistance", level().to_json())
    assert distance == pytest.approx(np.linalg.norm(EYE - CENTER))
    inside = View(np.c_[np.eye(3), CENTER], CENTER, UP, FOV)
    assert call(NAVIGATION, "centerDistance", inside.to_json()) == CLOSEST
    assert math.isclose(inside.distance, CLOSEST)
