"""Camera paths of nerfstudio have the same position in a run's scene as in nerfstudio."""

import json

import numpy as np
import pytest

from nerfmac.app.run import Run, load_path
from nerfmac.app.scenes import load_scene
from tests.app.paths.test_camera_path import KEYFRAMES, turned
from tests.scene_factory import CONFIG, nerfmac, write_scene

pytestmark = pytest.mark.usefixtures("on_the_cpu")

MOVED = np.c_[turned((0.4, -0.7, 0.3)), (0.3, -1.2, 0.5)]
"""What nerfstudio's reader does to the poses: a rotation and a move; then it scales by `SCALE`."""
SCALE = 0.21
APPLIED = np.array([[0.0, 1, 0, 0.25], [1, 0, 0, -0.5], [0, 0, -1, 0.125]])
APPLIED_SCALE = 1.6


def square(matrix):
    return np.r_[matrix, [[0.0, 0, 0, 1]]]


def studio_files(folder, poses, applied=APPLIED, applied_scale=APPLIED_SCALE):
    """Write both files as nerfstudio does, of frames at `poses` (n, 3, 4) of a transforms.json."""
    frames = []
    for pose in poses:
        own = MOVED @ square(pose)
        own[:, 3] *= SCALE
        frames.append({"camera_to_world": square(own).ravel().tolist(), "fov": 40.0})
    values = {"camera_type": "perspective", "camera_path": frames, "seconds": 1.0}
    (folder / "camera_path.json").write_text(json.dumps(values))
    said = {"transform": (MOVED @ square(applied)).tolist(), "scale": SCALE * applied_scale}
    (folder / "dataparser_transforms.json").write_text(json.dumps(said))
    return folder / "camera_path.json"


def file_poses(scene):
    values = json.loads((scene / "transforms_train.json").read_text())
    return [np.array(frame["transform_matrix"])[:3] for frame in values["frames"]]


@pytest.fixture
def captured(tmp_path):
    """Write the scene as a transforms.json with the transform that was applied to its poses."""
    folder = write_scene(tmp_path / "scene", test=1, train=3)
    values = json.loads((folder / "transforms_train.json").read_text())
    values |= {"applied_transform": APPLIED.tolist(), "applied_scale": APPLIED_SCALE}
    for frame in values["frames"]:
        frame["file_path"] += ".png"
    (folder / "transforms.json").write_text(json.dumps(values))
    return folder


def test_a_path_of_nerfstudio_lands_on_the_cameras_it_was_made_of(captured):
    path = studio_files(captured, file_poses(captured))
    (captured / "transforms_train.json").unlink()
    run = Run.begin(load_scene(captured, split="none"), CONFIG)
    tour = load_path(run, path)
    for keyframe, camera in zip(tour.keyframes, run.scene.cameras, strict=True):
        assert np.allclose(keyframe.pose, camera.pose, atol=1e-5)
    moved = (captured / "dataparser_transforms.json").rename(captured / "moved.json")
    named = load_path(run, path, moved)
    assert np.allclose(named.keyframes[1].pose, tour.keyframes[1].pose)


def test_a_scene_of_another_format_has_nothing_applied(tmp_path):
    folder = write_scene(tmp_path / "scene", test=1, train=3)
    path = studio_files(tmp_path, file_poses(folder), np.eye(4)[:3], 1.0)
    run = Run.begin(load_scene(folder), CONFIG)
    assert run.scene.placement.scale != 1.0
    for keyframe, camera in zip(load_path(run, path).keyframes, run.scene.cameras, strict=True):
        assert np.allclose(keyframe.pose, camera.pose, atol=1e-5)
    saved = tmp_path / "run"
    run.save(saved)
    flags = ("--path", path, "--frames", 3, "--fps", 2, "--size", "20x16", "--format", "npz")
    assert nerfmac("render", saved, *flags, "--device", "cpu", "--out", tmp_path / "out") == 0
    with np.load(tmp_path / "out" / "frame_00002.npz") as file:
        assert np.allclose(file["pose"], run.scene.cameras[2].pose, atol=1e-4)


def test_without_the_file_positions_are_the_scenes_and_that_is_said(scene, tmp_path, caplog):
    path = studio_files(tmp_path, [each.pose for each in KEYFRAMES[:2]])
    (tmp_path / "dataparser_transforms.json").unlink()
    run = Run.begin(scene, CONFIG)
    want = MOVED @ square(KEYFRAMES[1].pose)
    want[:, 3] *= SCALE
    assert np.allclose(load_path(run, path).keyframes[1].pose, want, atol=1e-6)
    assert "no dataparser_transforms.json next to" in caplog.text
