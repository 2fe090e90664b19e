"""A run uses the views that it was trained on and held out, whatever becomes of its scene."""

import json

import numpy as np
import pytest

from nerfmac import Goal, InputError, Run, Scene, resume, train
from nerfmac.app.scenes import load_scene, read_again
from nerfmac.app.scenes.scene import names_of
from tests.app.scenes.colmap_files import write_colmap
from tests.app.scenes.scene_files import matrix, pixels, save, write_blender, write_unplaced
from tests.scene_factory import CONFIG


def recorded(path, **options) -> Scene:
    return load_scene(path, **options).recorded()


def poses_of(scene):
    return np.stack([camera.pose for split in ("train", "test") for camera in scene.cameras(split)])


def change(path, how):
    values = json.loads(path.read_text())
    how(values["frames"])
    path.write_text(json.dumps(values))


def gain(path, name, index=40):
    save(path.parent / name, pixels(index % 5))
    frame = {"file_path": name, "transform_matrix": matrix(index)}
    change(path, lambda frames: frames.insert(0, frame))


@pytest.fixture
def unplaced(tmp_path):
    return write_unplaced(tmp_path / "room", [matrix(i) for i in range(12)], camera_angle_x=0.8)


@pytest.mark.parametrize("options", [{}, {"split": 3}, {"split": 0.3, "max_images": 5}])
def test_images_that_a_scene_gains_are_in_no_split_and_move_nothing(unplaced, caplog, options):
    before, record = load_scene(unplaced, **options), recorded(unplaced, **options)
    assert not caplog.messages
    gain(unplaced, "000-first.png")
    gain(unplaced, "zz-last.png", 55)
    after = read_again(record)
    assert names_of(after) == names_of(before)
    np.testing.assert_array_equal(poses_of(after), poses_of(before))
    assert (after.extent, after.up) == (before.extent, before.up)
    assert not np.array_equal(poses_of(load_scene(unplaced, **options))[0], poses_of(before)[0])
    (line,) = caplog.messages
    assert "have changed since the training; using only the views of the run" in line


def test_an_image_with_alpha_that_a_scene_gains_changes_no_colors(unplaced):
    record = recorded(unplaced)
    save(unplaced.parent / "a.png", pixels(1, channels=4))
    frame = {"file_path": "a.png", "transform_matrix": matrix(20)}
    change(unplaced, lambda frames: frames.append(frame))
    assert load_scene(unplaced).has_alpha
    assert not read_again(record).has_alpha


def test_a_colmap_model_that_gains_images_keeps_the_splits_of_the_run(tmp_path):
    write_colmap(tmp_path / "scene", 9)
    record = recorded(tmp_path / "scene")
    for file in (tmp_path / "scene").rglob("*.*"):
        file.unlink()
    write_colmap(tmp_path / "scene", 17)
    assert names_of(read_again(record)) == names_of(record)
    assert len(load_scene(tmp_path / "scene").splits["test"]) == 3


def test_equal_names_in_two_splits_stay_in_their_splits(tmp_path):
    write_blender(tmp_path, train=4, test=3)
    path = tmp_path / "transforms_test.json"
    values = json.loads(path.read_text().replace("./test/", "./train/"))
    for index, frame in enumerate(values["frames"]):
        frame["transform_matrix"] = matrix(20 + index)
    path.write_text(json.dumps(values))
    record = recorded(tmp_path)
    again = read_again(record)
    np.testing.assert_array_equal(poses_of(again), poses_of(load_scene(tmp_path)))
    assert names_of(again)["test"] == ["train/r_0", "train/r_1", "train/r_2"]
    assert names_of(again)["train"] == [f"train/r_{index}" for index in range(4)]


def test_a_training_image_that_is_gone_or_renamed_is_refused(unplaced):
    record = recorded(unplaced)
    (unplaced.parent / "003.png").rename(unplaced.parent / "renamed.png")
    change(unplaced, lambda frames: frames[3].update(file_path="renamed.png"))
    with pytest.raises(
        InputError, match=r"1 train views differ, such as '003\.png'; use the scene"
    ):
        read_again(record)


def test_a_pose_that_has_changed_is_refused(unplaced):
    record = recorded(unplaced)
    change(unplaced, lambda frames: frames[5].update(transform_matrix=matrix(30)))
    with pytest.raises(InputError, match=r"with another camera for '005\.png'"):
        read_again(record)


def test_evaluation_and_resuming_use_the_same_views_after_a_change(unplaced, tmp_path):
    settings = {"config": CONFIG, "progress": False}
    train(unplaced, goal=Goal(steps=4), out=tmp_path / "run", **settings)
    names = [view.name for view in Run.load(tmp_path / "run").evaluate("test", progress=False)]
    gain(unplaced, "000-first.png")
    again = Run.load(tmp_path / "run").evaluate("test", progress=False)
    assert [view.name for view in again] == names
    resumed = resume(tmp_path / "run", Goal(steps=8), progress=False)
    assert (resumed.state.step, len(resumed.views("train").names)) == (8, 10)
    with pytest.raises(InputError, match=r"other views of .* such as '000\.png'"):
        Run.load(tmp_path / "run", load_scene(unplaced))
