"""Findings about cameras, lenses, and splits."""

import re
from dataclasses import replace

import numpy as np
import pytest

from nerfmac import Camera, Lens
from nerfmac.app.inspection.cameras import camera_findings, lens_findings

LENS = Lens.from_fov(1.0, 96, 64)
UP = (0.0, 0.0, 1.0)


def ring(count=12):
    """Return cameras on a rising ring that look near the origin."""
    found = []
    for index in range(count):
        angle = 2 * np.pi * index / count
        eye = (2 * np.cos(angle), 2.2 * np.sin(angle), 0.5 + 0.05 * index)
        found.append(Camera.look_at(eye, (0.1, 0.0, 0.1), UP, LENS))
    return found


def findings(cameras):
    return camera_findings([f"{index:02}" for index in range(len(cameras))], cameras, UP)


def moved(camera, *, rotation=None, place=None):
    pose = camera.pose.copy()
    if rotation is not None:
        pose[:, :3] = pose[:, :3] @ rotation
    if place is not None:
        pose[:, 3] = place
    return Camera(LENS, pose)


ROLL = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda camera: moved(camera, place=camera.pose[:, 3] * 20), "times as far away"),
        (lambda camera: moved(camera, rotation=np.diag([-1, 1, -1])), "looks 1"),
        (lambda camera: moved(camera, rotation=ROLL), "is rolled by 90 degrees"),
    ],
)
def test_a_camera_that_is_wrong_is_named(change, words):
    cameras = ring()
    cameras[7] = change(cameras[7])
    (line,) = findings(cameras)
    assert line.startswith("07 ")
    assert words in line


def test_a_camera_that_is_there_twice_is_named():
    cameras = ring()
    assert findings(cameras) == []
    cameras[9] = cameras[4]
    assert findings(cameras) == ["09 has the same camera as 04"]


def test_a_walk_along_a_wall_and_a_room_from_inside_are_not_named():
    wall = [Camera.look_at((0.3 * k, -2, 1), (0.3 * k, 0, 1), UP, LENS) for k in range(12)]
    assert findings(wall) == []
    room = [
        Camera.look_at((0.2 * np.cos(a), 0.2 * np.sin(a), 1), (np.cos(a), np.sin(a), 1), UP, LENS)
        for a in np.linspace(0, 6, 12)
    ]
    assert findings(room) == []


PLAIN = Lens.from_fov(1.2, 96, 64)


def lens_findings_of(**values):
    odd = replace(PLAIN, **values)
    return lens_findings(["a", "b", "c"], [PLAIN, odd, odd])


@pytest.mark.parametrize(
    "values",
    [
        {"k1": -0.3, "k2": 0.1, "p1": 0.002},
        {"fl_y": PLAIN.fl_x * 1.02},
        {"k1": 0.05, "k2": 0.01, "is_fisheye": True},
        {"cx": 38.0},
    ],
)
def test_lenses_of_cameras_are_not_named(values):
    assert lens_findings_of(**values) == []


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"fl_x": 2e7, "fl_y": 2e7}, "degrees, which no camera has"),
        ({"cx": 20.0}, "principal point"),
        ({"k1": 46.0}, "k1 46"),
        ({"p2": 0.4}, "p2 0.4"),
        ({"k4": 9.0, "is_fisheye": True}, "k4 9"),
        ({"fl_y": PLAIN.fl_x * 1.2}, "fl_y / fl_x is 1.2 "),
    ],
)
def test_an_odd_lens_is_named_once(values, words):
    (line,) = lens_findings_of(**values)
    assert re.search(r"\bb (has|is|moves)\b", line)
    assert words in line
