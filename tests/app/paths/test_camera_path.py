"""A camera path leads through its keyframes, smoothly, evenly, and in time, in any scene."""

import math
from itertools import pairwise

import numpy as np
import pytest

from nerfmac import CameraPath, InputError, Keyframe
from nerfmac.app.paths import camera_path as path

PLACES = [(0.1, -2.0, 0.4), (0.7, -1.6, 0.5), (2.2, 0.3, 1.1), (1.9, 0.9, 0.2), (-0.5, 1.7, 0.6)]
AXES = [(0.2, 0.9, -0.3), (0.3, 0.8, 0.1), (1.4, -0.2, 1.9), (-0.4, 2.0, 1.7), (-1.1, 0.3, 2.2)]
FOVS = [0.6, 0.9, 0.95, 0.5, 0.7]


def turned(axis) -> np.ndarray:
    """The rotation (3, 3) about `axis` by its length in radians."""
    x, y, z = axis
    angle = math.sqrt(x * x + y * y + z * z)
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]]) / (angle or 1.0)
    return np.eye(3) + math.sin(angle) * cross + (1.0 - math.cos(angle)) * cross @ cross


def keyframe(place, axis, fov=0.8) -> Keyframe:
    return Keyframe(np.c_[turned(axis), place], fov)


KEYFRAMES = [keyframe(*each) for each in zip(PLACES, AXES, FOVS, strict=True)]
BOTH = pytest.mark.parametrize("closed", [False, True])


def sampled(tour: CameraPath, times) -> tuple[np.ndarray, np.ndarray]:
    """Poses (n, 3, 4) and fields of view (n,)."""
    keyframes = [tour.at(time) for time in times]
    return np.stack([k.pose for k in keyframes]), np.array([k.fov for k in keyframes])


def angles(poses) -> np.ndarray:
    """By how many radians each pose is turned against the one before."""
    chord = np.linalg.norm(np.diff(poses[:, :, :3], axis=0), axis=(1, 2))
    return 2.0 * np.arcsin(np.minimum(chord / math.sqrt(8.0), 1.0))


def lengths(tour: CameraPath, times) -> np.ndarray:
    """The distances between the path's points at `times`, as the module defines distance."""
    places = np.stack([each.pose[:, 3] for each in tour.keyframes])
    spread = math.sqrt(np.mean(np.sum((places - places.mean(axis=0)) ** 2, axis=1)))
    poses, fovs = sampled(tour, times)
    moved = np.linalg.norm(np.diff(poses[:, :, 3], axis=0), axis=1) / spread
    return np.sqrt(moved**2 + angles(poses) ** 2 + np.diff(fovs) ** 2)


@BOTH
@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_it_passes_through_each_keyframe_in_turn(count, closed):
    tour = CameraPath(KEYFRAMES[:count], closed)
    assert tour.times[0] == 0.0
    assert (np.diff(tour.times) > 0.0).all()
    assert closed or count == 1 or tour.times[-1] == 1.0
    for each, time in zip(KEYFRAMES, tour.times, strict=False):
        assert np.allclose(tour.at(time).pose, each.pose, atol=1e-12)
        assert tour.at(time).fov == pytest.approx(each.fov, abs=1e-12)


@BOTH
def test_it_has_no_corner_at_a_keyframe(closed):
    tour = CameraPath(KEYFRAMES, closed)
    step = 1e-4
    for time in tour.times[0 if closed else 1 : None if closed else -1]:
        # Before the start of a closed path comes its end.
        (before, here, after), fovs = sampled(tour, [(time - step) % 1.0, time, time + step])
        velocity = (here - before) / step, (after - here) / step
        assert np.linalg.norm(velocity[1]) > 1.0, "it stands still"
        assert np.allclose(*velocity, atol=0.03 * np.linalg.norm(velocity[1])), time
        assert np.diff(fovs)[0] == pytest.approx(np.diff(fovs)[1], abs=0.03 * step * 10)


@BOTH
def test_its_speed_is_constant(closed):
    walked = lengths(CameraPath(KEYFRAMES, closed), np.linspace(0.0, 1.0, 501))
    assert walked.max() < 1.02 * walked.mean()
    assert walked.min() > 0.96 * walked.mean()  # a chord is shorter than its arc


@pytest.mark.parametrize(
    "fractions", [[0.0, 0.1, 0.15, 1.0], [0.0, 1.0], [0.0, 0.6, 0.61, 0.9, 1.0]]
)
def test_keyframes_on_a_line_are_joined_by_that_line_without_turning_back(fractions):
    start, end = np.array([0.3, -1.0, 0.2]), np.array([-0.9, 1.4, 1.1])
    tour = CameraPath([keyframe(start + s * (end - start), AXES[2]) for s in fractions])
    poses, fovs = sampled(tour, np.linspace(0.0, 1.0, 101))
    along = (poses[:, :, 3] - start) @ (end - start) / np.sum((end - start) ** 2)
    assert np.allclose(poses[:, :, 3], start + along[:, None] * (end - start), atol=1e-12)
    assert np.allclose(along, np.linspace(0.0, 1.0, 101), atol=0.01)
    assert np.allclose(poses[:, :, :3], KEYFRAMES[2].pose[:, :3], atol=1e-12)
    assert np.allclose(fovs, 0.8)


def test_between_two_keyframes_it_turns_the_shorter_way():
    tour = CameraPath([keyframe(PLACES[0], (0, 0, 0.2)), keyframe(PLACES[0], (0, 0, 6.1))])
    poses, _ = sampled(tour, np.linspace(0.0, 1.0, 33))
    assert angles(poses).sum() == pytest.approx(2.0 * math.pi - 5.9, abs=1e-6)


@BOTH
def test_a_quaternion_and_its_negative_give_one_path(closed, monkeypatch):
    want, _ = sampled(CameraPath(KEYFRAMES, closed), np.linspace(0.0, 1.0, 40))
    signs = np.array([1.0, -1.0, -1.0, 1.0, -1.0])[:, None]
    plain = path.quaternions
    monkeypatch.setattr(path, "quaternions", lambda rotation: signs * plain(rotation))
    got, _ = sampled(CameraPath(KEYFRAMES, closed), np.linspace(0.0, 1.0, 40))
    assert np.allclose(got, want, atol=1e-12)


@BOTH
@pytest.mark.parametrize("scale", [1.0, 3.0])
def test_in_a_scene_moved_turned_and_enlarged_it_is_the_same_path(closed, scale):
    rotation, shift = turned((0.7, -1.9, 0.4)), np.array([[4.0], [-2.0], [0.5]])

    def placed(pose):
        return rotation @ np.c_[pose[:, :3], scale * pose[:, 3:]] + shift * [0.0, 0.0, 0.0, 1.0]

    times = np.linspace(0.0, 1.0, 40)
    want, fovs = sampled(CameraPath(KEYFRAMES, closed), times)
    other = CameraPath([Keyframe(placed(each.pose), each.fov) for each in KEYFRAMES], closed)
    got, got_fovs = sampled(other, times)
    assert np.allclose(got, [placed(pose) for pose in want], atol=1e-9)
    assert np.allclose(got_fovs, fovs, atol=1e-9)


def test_a_closed_path_ends_where_it_began_and_has_no_first_keyframe():
    tour = CameraPath(KEYFRAMES, closed=True)
    assert np.allclose(tour.at(0.0).pose, tour.at(1.0).pose, atol=1e-12)
    other = CameraPath([*KEYFRAMES[2:], *KEYFRAMES[:2]], closed=True)
    times = np.linspace(0.0, 0.999, 40)
    want, _ = sampled(tour, (times + tour.times[2]) % 1.0)
    got, _ = sampled(other, times)
    assert np.allclose(got, want, atol=1e-9)


def test_cameras_are_even_in_time_and_a_closed_path_does_not_repeat_its_first():
    tour = CameraPath(KEYFRAMES)
    for closed, last in ((False, 1.0), (True, 0.8)):
        tour = CameraPath(KEYFRAMES, closed)
        cameras = tour.cameras(5, (65, 49))
        poses, fovs = sampled(tour, np.linspace(0.0, last, 5))
        assert np.allclose([camera.pose for camera in cameras], poses, atol=1e-6)
        for camera, fov in zip(cameras, fovs, strict=True):
            lens = camera.lens
            assert (lens.width, lens.height, lens.cx, lens.cy) == (64, 48, 32.0, 24.0)
            assert 2.0 * math.atan(24.0 / lens.fl_y) == pytest.approx(fov)
            assert lens.fl_x == lens.fl_y
    (only,) = CameraPath(KEYFRAMES).cameras(1, (8, 8))
    assert np.allclose(only.pose, KEYFRAMES[0].pose)


@pytest.mark.parametrize(
    ("ask", "fault"),
    [
        (lambda tour: tour.at(1.1), "time is 1.1; expected between 0 and 1"),
        (lambda tour: tour.cameras(0, (8, 8)), "frames is 0"),
        (lambda tour: tour.cameras(2, (1, 8)), "width is 1"),
        (lambda tour: tour.cameras(2, (8, 2.5)), "height is 2.5"),
        (lambda tour: tour.polyline(0), "points is 0"),
        (lambda tour: tour.removed(5), "keyframe is 5; expected between 0 and 4"),
        (lambda tour: CameraPath(()).removed(0), "keyframe 0 does not exist"),
        (lambda tour: CameraPath(()).save("nowhere.json"), "no keyframes to save"),
        (lambda tour: Keyframe(np.zeros((3, 3)), 0.8), r"pose has shape \(3, 3\)"),
        (lambda tour: Keyframe(np.full((3, 4), np.inf), 0.8), "not finite"),
    ],
)
def test_what_cannot_be_is_refused(ask, fault):
    with pytest.raises(InputError, match=fault):
        ask(CameraPath(KEYFRAMES))


def timed(*seconds, ease=(), closed=False) -> CameraPath:
    """The keyframes with these times, and a rest at those in `ease`."""
    keyframes = [
        Keyframe(each.pose, each.fov, second, index in ease)
        for index, (each, second) in enumerate(zip(KEYFRAMES, seconds, strict=False))
    ]
    return CameraPath(keyframes, closed)


def speeds(tour, times, step=1e-5) -> np.ndarray:
    """How fast the camera moves at `times`, in scene units per whole path."""
    after, before = (sampled(tour, times + side)[0][:, :, 3] for side in (step, -step))
    return np.linalg.norm(after - before, axis=1) / (2.0 * step)


def test_a_path_with_times_is_at_each_keyframe_when_it_says():
    tour = timed(9.0, 1.0, 3.0, 0.5, 1.5)
    assert tour.seconds == 6.0
    assert np.allclose(tour.times, np.cumsum([0.0, 1.0, 3.0, 0.5, 1.5]) / 6.0)
    for keyframe, time in zip(KEYFRAMES, tour.times, strict=True):
        assert np.allclose(tour.at(time).pose, keyframe.pose, atol=1e-9)
        assert tour.at(time).fov == pytest.approx(keyframe.fov)


def test_the_speed_has_no_jump_at_a_keyframe_and_never_turns_back():
    tour = timed(None, 1.0, 3.0, 0.5, 1.5)
    for time in tour.times[1:-1]:
        before, after = speeds(tour, np.array([time - 2e-4, time + 2e-4]))
        assert after == pytest.approx(before, rel=0.05)
    times = np.linspace(0.0, 1.0, 300)
    there, plain = (angles(sampled(each, times)[0]) for each in (tour, CameraPath(KEYFRAMES)))
    assert there.sum() == pytest.approx(plain.sum(), rel=1e-3)


@pytest.mark.parametrize("seconds", [(None,) * 5, (None, 1.0, 3.0, 0.5, 1.5)])
def test_with_ease_the_camera_rests_at_a_keyframe_and_nowhere_else(seconds):
    tour = timed(*seconds, ease=(0, 2))
    rest = speeds(tour, np.array([1e-4, tour.times[2]]))
    moving = speeds(tour, np.array([tour.times[1], tour.times[3], 0.999]))
    assert rest.max() < 0.02 * moving.min()


def test_a_repeated_keyframe_with_a_time_is_a_pause():
    first, second, third = KEYFRAMES[:3]
    pause = Keyframe(second.pose, second.fov, 2.0)
    tour = CameraPath(
        [first, Keyframe(second.pose, second.fov, 1.0), pause, Keyframe(third.pose, third.fov, 1.0)]
    )
    assert tour.seconds == 4.0
    poses, _ = sampled(tour, np.linspace(0.25, 0.75, 9))
    assert np.allclose(poses, second.pose, atol=1e-9)
    assert np.allclose(tour.at(1.0).pose, third.pose, atol=1e-9)


def test_the_field_of_view_stays_between_its_neighbors():
    fovs = [0.5, 0.52, 1.6, 1.6, 0.4]
    tour = CameraPath([keyframe(*each) for each in zip(PLACES, AXES, fovs, strict=True)])
    for index, (start, end) in enumerate(pairwise(fovs)):
        _, seen = sampled(tour, np.linspace(*tour.times[index : index + 2], 50)[1:-1])
        assert seen.min() >= min(start, end) - 1e-12
        assert seen.max() <= max(start, end) + 1e-12


def test_a_removed_keyframe_leaves_the_others_in_order():
    tour = CameraPath(tuple(KEYFRAMES))
    assert [tour.removed(index).keyframes for index in (0, 2, 4)] == [
        tuple(KEYFRAMES[1:]),
        (*KEYFRAMES[:2], *KEYFRAMES[3:]),
        tuple(KEYFRAMES[:4]),
    ]
