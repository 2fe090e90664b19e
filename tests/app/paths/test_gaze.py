"""The estimated target of cameras is at the surfaces in the middle of their images."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.app.paths import center_of, figure_of_eight, orbit
from nerfmac.app.paths.rig import look_at_point
from nerfmac.geometry.bounds import Sphere
from nerfmac.geometry.cameras import Camera
from nerfmac.geometry.lenses import Lens
from nerfmac.ops.composite import Composited
from nerfmac.rendering.renderer import Renderer

UP = (0.0, 0.2, 1.0)
PIVOT = np.array([0.45, 0.6, 0.4])
"""Intersection of the camera axes."""
WALL = 0.8
"""They see a wall so far ahead of them, 0.7 before the pivot."""
LENS = Lens(30, 44, 40.0, 38.0, 15.0, 22.0)


def rig(degrees) -> list[Camera]:
    around = np.radians(degrees)
    eyes = PIVOT + 1.5 * np.stack([np.cos(around), np.sin(around), 0.1 + 0.0 * around], axis=1)
    return [Camera.look_at(eye, PIVOT, UP, LENS) for eye in eyes]


def seeing(distance, opacity=1.0) -> Renderer:
    """A renderer of something at the same distance in all directions."""

    def trace(rays, width):
        count = rays.origin.shape[0]
        seen = mx.full((count,), opacity)
        return Composited(mx.zeros((count, 3)), seen, seen * distance)

    return Renderer(trace)


def test_on_one_side_the_center_is_on_the_surfaces_and_not_behind_them():
    cameras = rig([-40, -10, 0, 25, 40])
    assert center_of(cameras) == pytest.approx(PIVOT, abs=1e-4)
    want = np.mean([each.pose[:, 3] - WALL * each.pose[:, 2] for each in cameras], axis=0)
    assert look_at_point(seeing(WALL), cameras, UP) == pytest.approx(want, abs=0.03)


@pytest.mark.parametrize("move", [orbit, figure_of_eight])
def test_a_move_turns_about_the_center_that_it_is_given(move):
    center = PIVOT + [0.3, -0.1, 0.05]
    for camera in move(rig([-40, -10, 0, 25, 40]), up=UP, frames=8, center=center):
        away = center - camera.pose[:, 3]
        assert -camera.pose[:, 2] @ away == pytest.approx(np.linalg.norm(away), rel=1e-5)


def test_about_a_nearer_center_a_swing_is_not_wider():
    center, cameras = PIVOT + [0.4, 0.0, 0.0], rig([-40, -10, 0, 25, 40])

    def width(path, about):
        east, north, _ = (np.stack([each.pose[:, 3] for each in path]) - about).T
        return np.ptp(np.degrees(np.arctan2(north, east)))

    plain, nearer = (
        orbit(cameras, up=(0, 0, 1), frames=40, center=each) for each in (None, center)
    )
    assert width(plain, PIVOT) == pytest.approx(80.0, abs=0.5)
    assert width(nearer, center) == pytest.approx(80.0, abs=0.5)


@pytest.mark.parametrize(
    ("degrees", "opacity"), [(range(0, 360, 40), 1.0), (range(-40, 40, 20), 0.2)]
)
def test_from_all_sides_or_in_fog_the_axes_tell_it_unless_the_subject_is_known(degrees, opacity):
    cameras, subject = rig(list(degrees)), Sphere((0.1, 0.2, 0.3), 0.4)
    assert look_at_point(seeing(WALL, opacity), cameras, UP) is None
    assert look_at_point(seeing(WALL, opacity), cameras, UP, subject) == pytest.approx(
        subject.center
    )
