"""Findings about cameras, lenses, splits, and repeated structure."""

import re
from dataclasses import replace

import numpy as np
import pytest

from nerfmac.app.inspection import inspect_scene
from nerfmac.app.inspection.cameras import camera_findings, lens_findings
from nerfmac.app.inspection.images import fold_findings, folds_of_training
from nerfmac.app.scenes import load_scene
from nerfmac.geometry.cameras import Camera
from nerfmac.geometry.lenses import Lens
from tests.app.scenes.scene_files import save, write_blender, write_json, write_transforms
from tests.scene_factory import nerfmac

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


def test_a_single_training_view_and_two_equal_splits_are_named(tmp_path):
    names = [f"images/{index:03d}.png" for index in range(3)]
    path = write_transforms(
        *(tmp_path, 3), train_filenames=names[:1], val_filenames=names[1:], test_filenames=names[1:]
    )
    found = " ".join(inspect_scene(path, progress=False).findings)
    assert "one training view" in found
    assert "2 images are in both splits val and test" in found
    whole = write_blender(tmp_path / "whole", train=3, test=2, val=2)
    found = " ".join(inspect_scene(whole, progress=False).findings)
    assert "only one training view" not in found
    assert "are in both splits" not in found


def test_training_names_an_odd_lens_and_a_single_view(tmp_path, caplog, on_the_cpu, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = write_transforms(tmp_path / "yard", 1, k1=46.0)
    nerfmac("train", path, "--out", "run", "--preset", "tiny", "--steps", 1, "--no-video")
    assert sum("one training view" in line for line in caplog.messages) == 1
    assert sum("k1 46" in line for line in caplog.messages) == 1


def test_a_field_of_view_that_contradicts_the_focal_length_is_told(tmp_path, caplog):
    load_scene(write_transforms(tmp_path / "right", 3, camera_angle_x=2 * np.arctan(12 / 30.0)))
    assert caplog.messages == []
    load_scene(write_transforms(tmp_path / "wrong", 3, camera_angle_x=0.5))
    (line,) = caplog.messages
    assert "camera_angle_x is 0.5, which is a focal length of 46.996 for 24 pixels" in line
    assert "but fl_x is 30; using fl_x" in line


NAMES = [f"{number}.jpg" for number in range(36)]


def cameras(degrees):
    """Return cameras at these angles of a circle, looking at its center."""
    angles = np.radians(degrees)
    eyes = np.stack([2 * np.cos(angles), 2.5 * np.sin(angles), np.full(36, 0.7)], axis=1)
    return [Camera.look_at(eye, (0, 0, 0), (0, 0, 1), LENS) for eye in eyes]


def looks(degrees):
    """Return what gives the thumbnails at these angles: waves that move as the camera does."""
    columns = np.linspace(0, 3, 32)

    def thumbnail(index):
        angle = np.radians(degrees[index])
        return 128 + 60 * np.sin(columns[None] + 2 * angle) * np.cos(columns[:, None] - angle)

    return thumbnail


WALK = np.arange(36) * 10.0
FOLDED = np.where(WALK < 180, WALK, WALK - 180)


def test_a_fold_is_named_where_it_tears(tmp_path):
    (line,) = fold_findings(NAMES, cameras(FOLDED), looks(WALK))
    assert line.startswith("17.jpg and 18.jpg are successive and look alike, but their cameras")
    assert "look 1" in line


def test_a_walk_a_leap_between_images_that_differ_no_walk_and_a_few_images_say_nothing():
    assert fold_findings(NAMES, cameras(WALK), looks(WALK)) == []
    assert fold_findings(NAMES, cameras(FOLDED), looks(np.where(WALK < 180, WALK, WALK + 90))) == []
    for seed in (1, 2):
        order = np.random.default_rng(seed).permutation(FOLDED)
        assert fold_findings(NAMES, cameras(order), looks(np.zeros(36))) == []
    some = slice(12, 23)
    assert fold_findings(NAMES[some], cameras(FOLDED)[some], looks(WALK[some])) == []


def test_a_model_of_a_can_that_is_folded_is_named(real_scenes):
    folder = real_scenes / "phone_beer"
    if not folder.is_dir():
        pytest.skip(f"no phone_beer in {real_scenes}")
    found = folds_of_training(load_scene(folder, downscale=4))
    assert found[0].startswith("images/0013.jpg and images/0014.jpg are successive")


def test_training_names_a_fold_too(tmp_path, caplog, on_the_cpu, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frames = []
    for index, camera in enumerate(cameras(FOLDED)):
        image = looks(WALK)(index).astype(np.uint8).repeat(3, axis=1).repeat(2, axis=0)
        save(tmp_path / f"yard/{index:02}.png", np.stack([image] * 3, axis=2))
        pose = [*camera.pose.tolist(), [0.0, 0.0, 0.0, 1.0]]
        frames.append({"file_path": f"{index:02}.png", "transform_matrix": pose})
    path = write_json(tmp_path / "yard/transforms.json", {"fl_x": 90.0, "frames": frames})
    flags = "--preset", "tiny", "--steps", 2, "--no-video", "--split", "none"
    assert nerfmac("train", path, "--out", "run", *flags) == 0
    (told,) = [line for line in caplog.messages if "look alike" in line]
    assert told.startswith("17.png and 18.png")
