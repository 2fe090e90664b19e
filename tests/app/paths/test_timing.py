"""Times and pauses of keyframes: the path reaches each keyframe on time and is monotonic."""

import json

import numpy as np
import pytest

from nerfmac.app.paths import CameraPath, Keyframe
from nerfmac.common.checks import InputError
from tests.app.paths.test_camera_path import KEYFRAMES, angles, sampled


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


def test_ways_without_a_time_are_walked_at_the_mean_speed_of_the_others():
    plain, tour = CameraPath(KEYFRAMES), timed(None, None, 2.0, None, 1.0)
    lengths = np.diff(plain.times)
    pace = 3.0 / (lengths[1] + lengths[3])
    assert np.allclose(
        np.diff(tour.times) * tour.seconds, [lengths[0] * pace, 2, lengths[2] * pace, 1]
    )
    assert plain.seconds is None


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


def test_times_and_rests_are_saved_and_read(tmp_path):
    tour = timed(None, 1.0, 0.1 + 0.2, None, 1.5, ease=(1, 4))
    tour.save(tmp_path / "tour.json")
    read = CameraPath.load(tmp_path / "tour.json")
    assert [each.seconds for each in read.keyframes] == [None, 1.0, 0.1 + 0.2, None, 1.5]
    assert [each.ease for each in read.keyframes] == [False, True, False, False, True]


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"seconds": 0}, "keyframe 1: seconds is 0; expected a value above 0"),
        ({"seconds": -2.0}, "keyframe 1: seconds is -2; expected a value above 0"),
        ({"seconds": 1e6}, "keyframe 1: seconds is 1e"),
        ({"seconds": float("nan")}, "keyframe 1: seconds is NaN; expected a finite number"),
        ({"ease": 1}, "keyframe 1: ease is 1; expected true or false"),
    ],
)
def test_bad_times_are_refused(tmp_path, change, fault):
    CameraPath(KEYFRAMES[:3]).save(tmp_path / "tour.json")
    values = json.loads((tmp_path / "tour.json").read_text())
    values["keyframes"][1] |= change
    (tmp_path / "tour.json").write_text(json.dumps(values))
    with pytest.raises(InputError, match=r"tour\.json, " + fault):
        CameraPath.load(tmp_path / "tour.json")
