"""However far a move leads, the camera can be rendered and moved back; the rest is refused."""

import math

import numpy as np
import pytest

from nerfmac.app.paths.view import CLOSEST, FARTHEST, View
from nerfmac.common.checks import InputError
from tests.app.viewer.standing import CENTER, EYE, FOV, UP, level


def test_far_outside_a_small_move_stays_small():
    outside = level().look_at(EYE + [0.0, 1.1 * FARTHEST, 0.0]).orbit(1.0, 0.0)
    assert np.linalg.norm(outside.pose[:, 3]) > 1.2 * FARTHEST
    moved = outside.pan(1e-6, 0.0)
    assert 1e-3 < np.linalg.norm(moved.pose[:, 3] - outside.pose[:, 3]) < 0.1


ABSURD = [100.0, -1e9, 1e200, -1e299]


@pytest.mark.parametrize("number", ABSURD)
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
