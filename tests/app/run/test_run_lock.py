"""One training at a time writes to a run's folder; paths of nerfstudio fit into a run's scene."""

import errno
import json
import os

import numpy as np
import pytest

import nerfmac
from nerfmac import Goal, InputError, load_scene
from nerfmac.app.run import Run, Training, load_path, resume, train
from tests.app.cli.refusals import refused
from tests.app.paths.test_camera_path import turned
from tests.killed import held
from tests.scene_factory import CONFIG, nerfmac as command_line, write_scene

pytestmark = pytest.mark.usefixtures("on_the_cpu")

SETTINGS = {"progress": False}


@pytest.fixture
def folder(scene, tmp_path):
    train(scene, config=CONFIG, goal=Goal(steps=2), out=tmp_path / "run", **SETTINGS)
    return tmp_path / "run"


@pytest.fixture
def holder(folder):
    with held(folder) as process:
        yield process


def test_a_second_training_in_another_process_writes_nothing(capsys, folder, holder):
    words = ("train", "--out", folder, "--resume", "--steps", 4)
    refused(capsys, folder.parent, *words, names=[folder, f"process {holder.pid}"])


def test_a_killed_training_leaves_no_lock(folder, holder, scene):
    holder.kill()
    holder.wait()
    assert resume(folder, Goal(steps=4), scene=scene, **SETTINGS).state.step == 4
    assert not (folder / ".lock").exists()


def test_reading_commands_are_not_kept_out(folder, holder, scene, tmp_path):
    assert Run.load(folder).state.step == 2
    assert command_line("eval", folder, "--scene", scene.path, "--device", "cpu") == 0
    path = tmp_path / "frames"
    assert command_line("render", folder, "--frames", 1, "--out", path, "--device", "cpu") == 0


def test_a_run_in_training_keeps_a_second_one_out_until_it_stops(folder, scene):
    first = Training.resume(folder, scene)
    reports = first.fit(nerfmac.Goal(steps=50))
    next(reports)
    with pytest.raises(InputError, match=str(folder)):
        resume(folder, Goal(steps=4), scene=scene, **SETTINGS)
    reports.close()
    stopped = first.run.state.step
    second = resume(folder, Goal(steps=stopped + 1), scene=scene, **SETTINGS)
    assert second.state.step == stopped + 1
    with pytest.raises(InputError, match=str(folder)):  # it has not seen the second one's steps
        first.train(Goal(steps=stopped + 9), progress=False)
    resume(folder, Goal(steps=stopped + 2), scene=scene, **SETTINGS)
    assert Run.load(folder).state.step == stopped + 2


def test_of_two_runs_begun_at_once_the_second_is_refused(folder, holder, scene, monkeypatch):
    # It is as before the first one wrote.
    monkeypatch.setattr("nerfmac.app.run.folder.check_unused", lambda _: None)
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    for is_over in (False, True):
        if is_over:
            holder.communicate()
            del before[folder / ".lock"]
        with pytest.raises(InputError, match=str(folder)):
            Training.begin(Run.begin(scene, CONFIG, progress=False), folder)
        assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_a_file_system_without_locks_is_trained_on(scene, tmp_path, monkeypatch, caplog):
    def no_lock(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", no_lock)
    run = train(scene, config=CONFIG, goal=Goal(steps=2), out=tmp_path / "run", **SETTINGS)
    assert Run.load(tmp_path / "run").state.step == run.state.step == 2
    assert str(tmp_path / "run") in caplog.text
    assert not (tmp_path / "run" / ".lock").exists()


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
    for keyframe, camera in zip(tour.keyframes, run.scene.cameras("train"), strict=True):
        assert np.allclose(keyframe.pose, camera.pose, atol=1e-5)
    moved = (captured / "dataparser_transforms.json").rename(captured / "moved.json")
    named = load_path(run, path, moved)
    assert np.allclose(named.keyframes[1].pose, tour.keyframes[1].pose)


def test_a_scene_of_another_format_has_nothing_applied(tmp_path, monkeypatch):
    folder = write_scene(tmp_path / "scene", test=1, train=3)
    path = studio_files(tmp_path, file_poses(folder), np.eye(4)[:3], 1.0)
    run = Run.begin(load_scene(folder), CONFIG)
    assert run.scene.placement.scale != 1.0
    for keyframe, camera in zip(load_path(run, path).keyframes, run.cameras, strict=True):
        assert np.allclose(keyframe.pose, camera.pose, atol=1e-5)
    saved = tmp_path / "run"
    run.save(saved)
    found = []
    monkeypatch.setattr(
        "nerfmac.app.cli.render.render_video", lambda _, given, *__: found.extend(given)
    )
    flags = ("--path", path, "--frames", 3, "--fps", 2, "--size", "20x16")
    assert command_line("render", saved, *flags, "--device", "cpu", "--out", tmp_path / "out") == 0
    assert np.allclose(found[2].pose, run.scene.cameras("train")[2].pose, atol=1e-4)


def test_a_run_that_was_killed_before_its_first_checkpoint_is_replaced(scene, tmp_path):
    for name in (".lock", "scene.json"):
        (tmp_path / name).write_text("")
    train(scene, config=CONFIG, goal=Goal(steps=1), out=tmp_path, **SETTINGS)
    assert Run.load(tmp_path).state.step == 1
