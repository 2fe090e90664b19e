"""A path stays where the training cameras were; its rigs are askew, off center, with any way up."""

import json
import math

import numpy as np
import pytest

from nerfmac import Camera, Lens
from nerfmac.app.paths import orbit

LENS = Lens(40, 30, 35.0, 34.0, 19.0, 16.0, k1=0.1)
CENTER = np.array([0.4, 0.7, -0.3])
UPS = [(0.0, 0.0, 1.0), (0.0, -2.0, 0.0), (0.3, -0.5, 0.8)]


def frame_of(up) -> np.ndarray:
    """Return a right-handed frame `(3, 3)`, rows east, north, up."""
    up = np.array(up) / np.linalg.norm(up)
    east = np.cross([0.6, 0.48, 0.64], up)
    east /= np.linalg.norm(east)
    return np.stack([east, np.cross(up, east), up])


def rig(degrees, up, elevation=25.0, distance=2.0, inwards=True) -> list[Camera]:
    """Return cameras around CENTER at the azimuths `degrees`, that look at it or away from it."""
    around, height = np.radians(degrees), math.radians(elevation)
    level = math.cos(height) * np.stack([np.cos(around), np.sin(around)], axis=1)
    eyes = CENTER + distance * np.c_[level, np.full(len(level), math.sin(height))] @ frame_of(up)
    targets = [CENTER if inwards else 2.0 * eye - CENTER for eye in eyes]
    return [Camera.look_at(eye, at, up, LENS) for eye, at in zip(eyes, targets, strict=True)]


def seen_from(path, up) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return azimuth in [0, 360) and elevation, in degrees, and distance of `path` from CENTER."""
    offset = (np.stack([camera.pose[:, 3] for camera in path]) - CENTER) @ frame_of(up).T
    distance = np.linalg.norm(offset, axis=1)
    azimuth = np.degrees(np.arctan2(offset[:, 1], offset[:, 0])) % 360.0
    return azimuth, np.degrees(np.arcsin(offset[:, 2] / distance)), distance


def apart(first, second) -> np.ndarray:
    """Return the angles between azimuths in degrees, at most 180."""
    return np.abs((np.subtract(first, second) + 180.0) % 360.0 - 180.0)


@pytest.mark.parametrize("up", UPS)
def test_cameras_all_round_give_one_even_turn_at_their_height_and_distance(up):
    path = orbit(rig([0, 50, 140, 170, 260, 300], up), up=up, frames=24)
    azimuth, elevation, distance = seen_from(path, up)
    assert np.allclose((azimuth - np.roll(azimuth, 1)) % 360.0, 15.0, atol=1e-2)
    assert np.allclose(elevation, 25.0, atol=1e-3)
    assert np.allclose(distance, 2.0, atol=1e-5)


@pytest.mark.parametrize("up", UPS)
def test_every_frame_looks_at_the_center_and_stands_upright(up):
    for camera in orbit(rig([0, 90, 180, 270], up), up=up, frames=7):
        right, above, back, eye = camera.pose.T
        assert np.allclose(eye - np.linalg.norm(eye - CENTER) * back, CENTER, atol=1e-5)
        assert right @ np.array(up) == pytest.approx(0.0, abs=1e-5)
        assert above @ np.array(up) > 0.0


@pytest.mark.parametrize("up", UPS)
@pytest.mark.parametrize("degrees", [[10, 30, 70, 100], [330, 350, 20, 55]])
def test_cameras_on_one_side_are_swung_between_and_never_left(up, degrees):
    azimuth, elevation, _ = seen_from(orbit(rig(degrees, up), up=up, frames=48), up)
    middle = (degrees[0] + degrees[-1] - 360 * (degrees[0] > degrees[-1])) / 2
    half = float(apart(degrees[0], middle))
    swing = (azimuth - middle + 180.0) % 360.0 - 180.0
    assert swing.min() == pytest.approx(-half, abs=0.01)
    assert swing.max() == pytest.approx(half, abs=0.01)
    assert np.abs(np.diff(swing, append=swing[0])).max() < 0.15 * half, "the swing jumps"
    assert np.allclose(elevation, 25.0, atol=1e-3)


@pytest.mark.parametrize("up", UPS)
def test_cameras_that_look_outwards_give_a_path_that_does(up):
    path = orbit(rig(range(0, 360, 40), up, elevation=-10.0, inwards=False), up=up, frames=9)
    azimuth, elevation, distance = seen_from(path, up)
    assert np.allclose(apart(azimuth, np.roll(azimuth, 1)), 40.0, atol=1e-2)
    assert np.allclose(elevation, -10.0, atol=1e-3)
    assert np.allclose(distance, 2.0, atol=1e-5)
    for camera in path:
        assert -camera.pose[:, 2] @ (camera.pose[:, 3] - CENTER) == pytest.approx(2.0, abs=1e-4)


def test_the_path_follows_the_height_and_distance_of_the_cameras_on_each_side():
    up = UPS[2]
    cameras = rig(range(0, 360, 40), up, elevation=70.0, distance=1.2)  # a second ring, sparser
    for degrees in range(0, 360, 10):  # low and far in the direction 120, high and near opposite
        swing = math.cos(math.radians(degrees - 120))
        cameras += rig([degrees], up, elevation=25 - 10 * swing, distance=2.0 + 0.3 * swing)
    azimuth, elevation, distance = seen_from(orbit(cameras, up=up, frames=36), up)
    swing = np.cos(np.radians(azimuth - 120))
    assert np.allclose(elevation, 25 - 10 * swing, atol=3.0)
    assert np.allclose(distance, 2.0 + 0.3 * swing, atol=0.08)
    turns = np.stack([elevation, 40 * distance])
    assert np.abs(np.diff(turns, n=2)).max() < 1.0  # no corner: the speed changes smoothly


def test_the_lens_is_plain_even_and_sees_as_much_as_those_that_took_the_images():
    tall = Lens(541, 961, 687.0, 687.0, 277.0, 482.0, k1=0.06, k2=-0.08, p1=-0.001)
    cameras = [Camera(tall, camera.pose) for camera in rig([0, 90, 180, 270], UPS[0])]
    lens = orbit(cameras, up=UPS[0], frames=1)[0].lens
    assert (lens.width, lens.height, lens.cx, lens.cy) == (540, 960, 270.0, 480.0)
    assert lens.fl_x == lens.fl_y == pytest.approx(687.0, rel=2e-3)
    assert not any(lens.distortion)
    wide = orbit(cameras, up=UPS[0], frames=1, size=(1281, 720))[0].lens
    assert (wide.width, wide.height) == (1280, 720)
    square = [Camera(Lens.from_fov(0.7, 400, 400), camera.pose) for camera in cameras]
    wide = orbit(square, up=UPS[0], frames=1, size=(1280, 720))[0].lens
    assert 2 * np.arctan(0.5 * wide.height / wide.fl_y) == pytest.approx(0.7, rel=1e-6)


@pytest.mark.parametrize(
    ("photo", "size", "seen"),
    [
        ((540, 960), (1280, 720), math.sqrt(540 * 960)),  # else heads are cut
        ((540, 960), (600, 600), math.sqrt(540 * 960)),
        ((540, 960), (700, 800), 540),
        ((960, 540), (360, 640), math.sqrt(540 * 960)),
        ((960, 540), (1280, 720), 540),
        ((960, 540), (800, 700), 540),
        ((540, 540), (1280, 720), 540),
        ((540, 540), (360, 640), 540),
    ],
)
def test_a_frame_across_the_photos_sees_more_than_their_shorter_side(photo, size, seen):
    lens = Lens(*photo, 687.0, 687.0, 270.0, 480.0)
    cameras = [Camera(lens, camera.pose) for camera in rig([0, 90, 180, 270], UPS[0])]
    framed = orbit(cameras, up=UPS[0], frames=1, size=size)[0].lens
    assert min(size) / framed.fl_y == pytest.approx(seen / 687.0, rel=1e-6)
    assert framed.fl_x == framed.fl_y


def test_on_a_phone_capture_of_one_side_every_frame_is_near_a_photo(real_scenes):
    capture = json.loads((real_scenes / "fox_540" / "transforms.json").read_text())
    poses = [np.array(each["transform_matrix"])[:3] for each in capture["frames"]]
    cameras = [Camera(Lens(540, 960, 687.0, 687.0, 277.0, 482.0), pose) for pose in poses]
    taken = np.array([[*camera.pose[:, 3], *camera.pose[:, 2]] for camera in cameras])
    for camera in orbit(cameras, up=(0.0, 0.0, 1.0), frames=60):
        distance = np.linalg.norm(taken[:, :3] - camera.pose[:, 3], axis=1)
        nearest = int(distance.argmin())
        assert distance[nearest] < 1.7, "a third of the way to the fox from any photo"
        assert taken[nearest, 3:] @ camera.pose[:, 2] > 0.9
