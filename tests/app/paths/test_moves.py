"""Moves are smooth, level, and about the right center, on rigs of every kind."""

import math

import mlx.core as mx
import numpy as np
import pytest

from nerfmac import Camera, Composited, Lens, Renderer
from nerfmac.app.paths import center_of, figure_of_eight, orbit, spiral, tour
from nerfmac.app.paths.curve import logarithm, quaternions
from nerfmac.app.paths.rig import look_at_point
from tests.app.paths.test_orbit import CENTER, LENS, UPS, rig, seen_from

MOVES = {orbit: 5.0, spiral: 10.0, figure_of_eight: 6.0, tour: 10.0}
"""With the seconds that `nerfmac render` takes for them."""
NAMES = ("orbit", "spiral", "figure_of_eight", "tour")
EVERY = pytest.mark.parametrize("move", MOVES, ids=NAMES)
FPS = 24.0
SMOOTH = 2.6
"""Maximum angular acceleration in rad/s^2, about the value of a slow pan by hand."""


def random_rig(up, low=5.0, high=80.0) -> list[Camera]:
    """Sixty cameras in no order on a dome, askew, some of them nearly overhead."""
    random = np.random.default_rng(5)
    cameras = []
    for azimuth, elevation in zip(
        random.uniform(0, 360, 60), random.uniform(low, high, 60), strict=True
    ):
        cameras += rig([azimuth], up, elevation=elevation)
    return cameras


def shaken(up) -> list[Camera]:
    """Forty cameras taken one after another on one side, by a hand that shakes."""
    random = np.random.default_rng(6)
    cameras = []
    for index, azimuth in enumerate(np.linspace(-50.0, 60.0, 40)):
        height = 10.0 + 25.0 * math.sin(index / 7.0)
        (camera,) = rig([azimuth + random.normal(0, 2)], up, elevation=height)
        eye = camera.pose[:, 3] + random.normal(0, 0.05, 3)
        cameras.append(Camera.look_at(eye, CENTER + random.normal(0, 0.1, 3), up, LENS))
    return cameras


RIGS = {"dome": random_rig, "hand": shaken}
EACH = pytest.mark.parametrize("cameras", RIGS.values(), ids=RIGS)


def accelerations(path, fps=FPS) -> np.ndarray:
    """Angular accelerations in rad/s^2 from frame to frame."""
    turned = np.stack([camera.pose[:, :3] for camera in path]).astype(np.float64)
    steps = logarithm(quaternions(turned[1:] @ turned[:-1].transpose(0, 2, 1))) * fps
    return np.linalg.norm(np.diff(steps, axis=0), axis=1) * fps


@EVERY
@EACH
def test_no_move_turns_abruptly(move, cameras):
    frames = round(MOVES[move] * FPS)
    path = move(cameras(UPS[2]), up=UPS[2], frames=frames)
    assert len(path) == frames
    assert accelerations(path).max() < SMOOTH


@pytest.mark.parametrize("move", [m for m in MOVES if m is not tour], ids=NAMES[:3])
@EACH
def test_a_loop_has_no_seam(move, cameras):
    frames = round(MOVES[move] * FPS)
    path = move(cameras(UPS[2]), up=UPS[2], frames=frames)
    assert accelerations([*path[-3:], *path[:3]]).max() < SMOOTH
    places = np.stack([camera.pose[:, 3] for camera in [*path[-3:], *path[:3]]]) * FPS
    assert np.linalg.norm(np.diff(places, 2, axis=0), axis=1).max() * FPS < 2.0 * SMOOTH


@EVERY
@EACH
def test_the_horizon_is_level_and_the_scene_is_looked_at_from_where_it_was_seen(move, cameras):
    up, given = UPS[2], cameras(UPS[2])
    path = move(given, up=up, frames=60)
    for camera in path:
        assert camera.pose[:, 0] @ np.array(up) == pytest.approx(0.0, abs=1e-5)
        assert camera.pose[:, 1] @ np.array(up) > 0.0
        toward = CENTER - camera.pose[:, 3]
        assert -camera.pose[:, 2] @ toward > 0.98 * np.linalg.norm(toward)
    (_, elevation, distance), (_, high, far) = seen_from(path, up), seen_from(given, up)
    assert elevation.min() > high.min() - 1.0
    assert elevation.max() < high.max() + 1.0
    assert distance.min() > 0.7 * far.min()
    assert distance.max() < 1.3 * far.max()


def test_a_tour_follows_cameras_in_their_order_and_without_the_shaking():
    cameras = shaken(UPS[0])
    path = tour(cameras, up=UPS[0], frames=200)
    places, given = (np.stack([c.pose[:, 3] for c in each]) for each in (path, cameras))
    nearest = np.linalg.norm(places[:, None] - given, axis=2).argmin(axis=1)
    assert (nearest[0], nearest[-1]) < (6, 40)
    assert nearest[-1] > 33
    assert (np.diff(nearest) >= -3).all()
    steps = np.linalg.norm(np.diff(places, axis=0), axis=1)
    shaking = np.linalg.norm(np.diff(given, axis=0), axis=1).sum()
    assert steps.sum() < 0.75 * shaking
    assert steps.max() < 2.0 * steps.mean()


UP = (0.0, 0.2, 1.0)
PIVOT = np.array([0.45, 0.6, 0.4])
"""Intersection of the camera axes."""
WALL = 0.8
"""They see a wall so far ahead of them, 0.7 before the pivot."""
NARROW = Lens(30, 44, 40.0, 38.0, 15.0, 22.0)


def swung_rig(degrees) -> list[Camera]:
    around = np.radians(degrees)
    eyes = PIVOT + 1.5 * np.stack([np.cos(around), np.sin(around), 0.1 + 0.0 * around], axis=1)
    return [Camera.look_at(eye, PIVOT, UP, NARROW) for eye in eyes]


def seeing(distance, opacity=1.0) -> Renderer:
    """A renderer of something at the same distance in all directions."""

    def trace(rays, width):
        count = rays.origin.shape[0]
        seen = mx.full((count,), opacity)
        return Composited(mx.zeros((count, 3)), seen, seen * distance)

    return Renderer(trace)


def test_on_one_side_the_center_is_on_the_surfaces_and_not_behind_them():
    cameras = swung_rig([-40, -10, 0, 25, 40])
    assert center_of(cameras) == pytest.approx(PIVOT, abs=1e-4)
    want = np.mean([each.pose[:, 3] - WALL * each.pose[:, 2] for each in cameras], axis=0)
    assert look_at_point(seeing(WALL), cameras, UP) == pytest.approx(want, abs=0.03)


@pytest.mark.parametrize("move", [orbit, figure_of_eight])
def test_a_move_turns_about_the_center_that_it_is_given(move):
    center = PIVOT + [0.3, -0.1, 0.05]
    for camera in move(swung_rig([-40, -10, 0, 25, 40]), up=UP, frames=8, center=center):
        away = center - camera.pose[:, 3]
        assert -camera.pose[:, 2] @ away == pytest.approx(np.linalg.norm(away), rel=1e-5)
