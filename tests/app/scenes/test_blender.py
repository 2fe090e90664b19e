"""Blender's format, the built-in scene, and published captures on this machine."""

import json

import numpy as np
import pytest

from nerfmac import InputError, load_scene
from tests.app.scenes.scene_files import HEIGHT, WIDTH, matrix, pixels, write_blender, write_json


def sizes(scene) -> dict[str, int]:
    return {split: len(frames) for split, frames in scene.splits.items()}


def test_each_file_is_a_split(tmp_path):
    scene = load_scene(write_blender(tmp_path / "chair", train=6, val=2, test=3))
    assert (scene.name, scene.extent, scene.up) == ("chair", 1.0, (0.0, 0.0, 1.0))
    assert sizes(scene) == {"train": 6, "val": 2, "test": 3}
    assert scene.splits["val"][1].name == "val/r_1"
    lens = scene.splits["train"][0].camera.lens
    assert WIDTH / 2 / lens.fl_x == pytest.approx(np.tan(0.4))
    assert (lens.fl_y, lens.cx, lens.cy) == (lens.fl_x, WIDTH / 2, HEIGHT / 2)


def test_positions_are_scaled_about_the_middle_and_axes_stay(tmp_path):
    scene = load_scene(write_blender(tmp_path, train=3))
    for index, frame in enumerate(scene.splits["train"]):
        given = np.array(matrix(index))
        np.testing.assert_allclose(frame.camera.pose[:, :3], given[:3, :3], atol=1e-6)
        np.testing.assert_allclose(frame.camera.pose[:, 3], 0.33 * given[:3, 3] + 0.5, atol=1e-6)


@pytest.mark.parametrize(("channels", "has_alpha"), [(3, False), (4, True)])
def test_alpha_is_kept_where_there_is_any(tmp_path, channels, has_alpha):
    scene = load_scene(write_blender(tmp_path, channels=channels, train=2, test=1))
    assert scene.has_alpha is has_alpha
    np.testing.assert_array_equal(
        np.array(scene.views("test").image(0)), pixels(0, channels), strict=True
    )


def test_n_replaces_the_test_file_by_every_nth_training_view(tmp_path):
    scene = load_scene(write_blender(tmp_path, train=7, val=1, test=2), split=3)
    assert sizes(scene) == {"train": 4, "val": 1, "test": 3}
    assert [frame.name for frame in scene.splits["test"]] == ["train/r_0", "train/r_3", "train/r_6"]
    assert not {*scene.splits["test"]} & {*scene.splits["train"]}


def test_without_a_test_file_there_is_no_test_split_and_the_error_says_how_to_get_one(tmp_path):
    scene = load_scene(write_blender(tmp_path, train=9))
    assert sizes(scene) == {"train": 9}
    with pytest.raises(InputError, match=r"no 'test' views; available splits: train.*--split 8"):
        scene.views("test")
    assert sizes(load_scene(tmp_path, split=8)) == {"train": 7, "test": 2}


@pytest.mark.parametrize(("factor", "extent"), [(0.1, 1.0), (1.0, 1.0), (20.0, 1.0)])
def test_cameras_at_an_unusual_distance_are_placed_by_what_they_look_at(
    tmp_path, factor, extent, caplog
):
    write_blender(tmp_path, train=6)
    path = tmp_path / "transforms_train.json"
    values = json.loads(path.read_text())
    for index, frame in enumerate(values["frames"]):
        pose = np.array(matrix(index))
        pose[:3, 3] *= factor
        frame["transform_matrix"] = pose.tolist()
    write_json(path, values)
    scene = load_scene(tmp_path)
    poses = np.stack([frame.camera.pose for frame in scene.splits["train"]])
    assert 0.7 < np.linalg.norm(poses[:, :, 3] - 0.5, axis=1).mean() < 1.5
    assert scene.extent == 1.0
    assert ("units from the origin instead of about 4" in caplog.text) == (factor != 1.0)


def folder(real_scenes, name):
    path = real_scenes / name
    if not path.is_dir():
        pytest.skip(f"no {name} in {real_scenes}")
    return path


def test_lego_loads_with_its_own_splits_and_alpha(real_scenes):
    scene = load_scene(folder(real_scenes, "lego_400"))
    assert (len(scene.splits["train"]), len(scene.splits["test"])) == (100, 20)
    assert (scene.extent, scene.has_alpha) == (1.0, True)
    views = scene.views("test")
    assert views.pixels.shape == (20 * 400 * 400, 4)
    assert not views.cameras.is_distorted
    assert views.cameras[3].lens.fl_x == pytest.approx(400 / 2 / np.tan(0.6911112070083618 / 2))
    cover = np.array(views.pixels[:, 3]).mean() / 255
    assert 0.1 < cover < 0.5


def test_a_phones_capture_has_the_same_cameras_as_colmap_and_as_llff(real_scenes, caplog):
    path = folder(real_scenes, "phone_beer")
    colmap, llff = load_scene(path), load_scene(path / "poses_bounds.npy")
    assert [len(colmap.splits[split]) for split in ("train", "test")] == [62, 9]
    for split, frames in colmap.splits.items():
        for one, other in zip(frames, llff.splits[split], strict=True):
            assert one.name == other.name
            np.testing.assert_allclose(one.camera.pose, other.camera.pose, atol=1e-5)
    first = colmap.splits["test"][0].camera.lens
    assert first.fl_x == pytest.approx(llff.splits["test"][0].camera.lens.fl_x, abs=1e-3)
    assert first.k1 == pytest.approx(0.0578036)
    assert caplog.messages == []


def test_a_placement_in_the_training_file_holds_for_all_splits(tmp_path):
    write_blender(tmp_path, train=2, test=1)
    path = tmp_path / "transforms_train.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "scale": 0.5, "aabb_scale": 4}))
    scene = load_scene(tmp_path)
    assert scene.extent == 4.0
    position = scene.splits["test"][0].camera.pose[:, 3]
    np.testing.assert_allclose(position, 0.5 * np.array(matrix(0))[:3, 3] + 0.5, atol=1e-6)
