"""Camera path files are read as the programs that wrote them mean them, or refused by field."""

import json
import math

import numpy as np
import pytest

from nerfmac import CameraPath, InputError
from tests.app.paths.test_camera_path import KEYFRAMES, sampled, timed

POSE = [[0, 0, 1, 2.0], [1, 0, 0, 3.0], [0, 1, 0, 5.0]]
"""Pose with right along y and up along z, looking along -x, at the position (2, 3, 5)."""
STUDIO = {
    "camera_type": "perspective",
    "render_height": 720,
    "render_width": 1280,
    "fps": 10,
    "seconds": 0.3,
    "is_cycle": False,
    "keyframes": [],
    "camera_path": [
        {"camera_to_world": [*POSE[0], *POSE[1], *POSE[2], 0, 0, 0, 1], "fov": 60.0, "aspect": 1.7},
        {"camera_to_world": [*POSE[0], *POSE[1], 0, 1, 0, 6.0, 0, 0, 0, 1], "fov": 50.0},
        {"camera_to_world": [*POSE[0], *POSE[1], 0, 1, 0, 9.0, 0, 0, 0, 1], "fov": 50.0},
    ],
}
NGP = {
    "time": 0.5,
    "path": [
        {"R": [1.0, 0.0, 0.0, 0.0], "T": [3.0, 5.0, 2.0], "fov": 60.0, "slice": 0.0, "scale": 1.5},
        {"R": [1.0, 0.0, 0.0, 0.0], "T": [3.0, 6.0, 2.0], "fov": 50.0, "aperture_size": 0.0},
    ],
}


def written(tmp_path, values):
    path = tmp_path / "path.json"
    path.write_text(json.dumps(values))
    return path


def test_nerfstudios_frames_are_frames_here(tmp_path):
    tour = CameraPath.load(written(tmp_path, STUDIO))
    assert tour.seconds == pytest.approx(0.3)
    assert (tour.fps, tour.size) == (10.0, (1280, 720))
    cameras = tour.cameras(3, (64, 36))
    assert np.allclose(cameras[0].pose, POSE, atol=1e-6)
    assert np.allclose([camera.pose[2, 3] for camera in cameras], [5.0, 6.0, 9.0], atol=1e-5)
    fovs = [2.0 * math.degrees(math.atan(18.0 / camera.lens.fl_y)) for camera in cameras]
    assert np.allclose(fovs, [60.0, 50.0, 50.0])


def test_instant_ngps_keyframes_stand_where_its_axes_say(tmp_path):
    tour = CameraPath.load(written(tmp_path, NGP))
    assert not tour.closed
    first, last = tour.keyframes
    # Its place is (y, z, x). Its camera's right, down and forward are y, -z and -x here.
    assert np.allclose(first.pose, POSE, atol=1e-12)
    assert np.allclose(last.pose[:, 3], [2.0, 3.0, 6.0])
    assert math.degrees(first.fov) == pytest.approx(60.0)
    assert CameraPath.load(written(tmp_path, {**NGP, "loop": True})).closed


@pytest.mark.parametrize("closed", [False, True])
def test_a_path_for_instant_ngp_is_read_again(tmp_path, closed):
    CameraPath(KEYFRAMES, closed).save(tmp_path / "base_cam.json", "instant-ngp")
    read = CameraPath.load(tmp_path / "base_cam.json")
    assert read.closed is closed
    for got, want in zip(read.keyframes, KEYFRAMES, strict=True):
        assert np.allclose(got.pose, want.pose, atol=1e-9)
        assert got.fov == pytest.approx(want.fov)


@pytest.mark.parametrize("closed", [False, True])
def test_a_path_for_nerfstudio_has_every_frame(tmp_path, closed):
    tour = timed(2.0, 1.0, 2.0, 0.5, 1.5, closed=closed)
    tour.save(tmp_path / "camera_path.json", "nerfstudio", fps=10.0, size=(640, 360))
    values = json.loads((tmp_path / "camera_path.json").read_text())
    count = 70 if closed else 50
    assert (len(values["camera_path"]), values["is_cycle"]) == (count, closed)
    assert values["seconds"] == pytest.approx(count / 10)
    read = CameraPath.load(tmp_path / "camera_path.json")
    want = [camera.pose for camera in tour.cameras(count, (64, 36))]
    assert np.allclose([camera.pose for camera in read.cameras(count, (64, 36))], want, atol=1e-5)
    assert np.allclose(sampled(read, [0.0])[1], tour.at(0.0).fov)


ROWS = [[1, 0, 0, 0.5], [0, 1, 0, 2], [0, 0, 1, -3]]
GOOD = {"schema": 1, "closed": False, "keyframes": [{"pose": ROWS, "fov": 0.7}] * 2}


def first(**change) -> dict:
    """Return changes of the first keyframe of GOOD; a field that is None is removed."""
    fields = {k: v for k, v in {"pose": ROWS, "fov": 0.7, **change}.items() if v is not None}
    return {"keyframes": [fields, *GOOD["keyframes"][1:]]}


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"schema": 2}, "schema is 2; expected 1"),
        ({"closed": 0}, "closed is 0; expected true or false"),
        ({"keyframes": []}, r"keyframes is \[\]; expected a list with at least one"),
        ({"keyframes": [3]}, "keyframe 0 is 3; expected an object"),
        (first(pose=None), "keyframe 0: pose is missing"),
        (first(time=3), "keyframe 0: time is unknown; expected one of: pose, fov"),
        (first(pose=ROWS[:2]), "keyframe 0: pose is .*; expected 3 rows of 4 numbers"),
        (first(pose=[*ROWS[:2], [0, 0, 1]]), "keyframe 0: pose, row 2 is .*; expected a list of 4"),
        (first(pose=[*ROWS[:2], [0, 0, 1, 1e16]]), "row 2 is .*finite"),
        (first(pose=[*ROWS[:2], [0, 0, 1.1, 1]]), "keyframe 0: pose must be a rotation"),
        (first(seconds=0), "keyframe 0: seconds is 0; expected a value above 0"),
        (first(seconds=math.nan), "keyframe 0: seconds is NaN; expected a finite number"),
        (first(seconds=1e6), "keyframe 0: seconds is 1e"),
        (first(ease=1), "keyframe 0: ease is 1; expected true or false"),
        (first(fov=0), "keyframe 0: fov is 0; expected radians between 0 and pi"),
    ],
)
def test_a_broken_file_is_refused_with_its_name_and_the_field(tmp_path, change, fault):
    values = {key: value for key, value in {**GOOD, **change}.items() if value is not None}
    (tmp_path / "tour.json").write_text(json.dumps(values))
    with pytest.raises(InputError, match=r"tour\.json.*" + fault):
        CameraPath.load(tmp_path / "tour.json")
