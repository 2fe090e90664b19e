"""Unusual files from other programs can be read, and one log line describes each correction."""

import json

import numpy as np
import pytest
from PIL import Image

from nerfmac import InputError, load_scene
from tests.app.scenes.projection import assert_same_pixels
from tests.app.scenes.scene_files import matrix, write_json, write_transforms


def lens_of(path, index=0):
    return load_scene(path, split="none").splits["train"][index].camera.lens


def rewrite(path, change):
    values = json.loads(path.read_text())
    for index, frame in enumerate(values["frames"]):
        change(index, frame)
    return write_json(path, values)


def without(path, *keys: str):
    values = json.loads(path.read_text())
    return write_json(path, {key: value for key, value in values.items() if key not in keys})


@pytest.mark.parametrize("key", ["K", "intrinsics", "intrinsic_matrix"])
def test_a_frames_matrix_of_intrinsics_is_its_lens(tmp_path, key):
    own = {key: [[33.0, 0, 12.5, 0], [0, 34.0, 7.5, 0], [0, 0, 1, 0], [0, 0, 0, 1]]}
    if key == "K":
        own = {key: [row[:3] for row in own[key][:3]]}
    path = write_transforms(tmp_path, 2, frame={1: own}, k1=0.1)
    first, second = (lens_of(path, index) for index in (0, 1))
    assert (first.fl_x, first.fl_y, first.cx, first.cy) == (30.0, 29.0, 11.0, 8.5)
    assert (second.fl_x, second.fl_y, second.cx, second.cy) == (33.0, 34.0, 12.5, 7.5)
    assert second.k1 == 0.1


@pytest.mark.parametrize("name", ["f1_", "f"])
def test_a_misspelled_focal_length_is_read_with_one_line(tmp_path, caplog, name):
    named = {f"{name}x": 30.0, f"{name}y": 29.0}
    lens = lens_of(without(write_transforms(tmp_path, 3, **named), "fl_x", "fl_y"))
    assert (lens.fl_x, lens.fl_y) == (30.0, 29.0)
    assert [line.split(": ")[1] for line in caplog.messages] == [
        f"{name}x is interpreted as fl_x",
        f"{name}y is interpreted as fl_y",
    ]


def test_one_scale_of_all_rotations_is_taken_out(tmp_path, caplog):
    plain = write_transforms(tmp_path / "a", 9)
    scaled = rewrite(
        write_transforms(tmp_path / "b", 9),
        lambda i, frame: frame.update(
            transform_matrix=(np.array(matrix(i)) * [[0.21, 0.21, 0.21, 1]]).tolist()
        ),
    )
    assert_same_pixels(load_scene(plain), load_scene(scaled))
    assert len(caplog.messages) == 1
    assert "the rotations of all 9 poses are scaled by 0.21" in caplog.text


def test_a_fisheye_lens_by_its_models_name_or_its_flag(tmp_path):
    by_name = write_transforms(tmp_path / "a", 2, camera_model="OPENCV_FISHEYE", k1=0.1)
    by_flag = write_transforms(tmp_path / "b", 2, is_fisheye=True, k1=0.1)
    assert lens_of(by_name) == lens_of(by_flag)
    assert lens_of(by_name).is_fisheye
    mixed = write_transforms(tmp_path / "c", 2, frame={1: {"camera_model": "OPENCV_FISHEYE"}})
    assert [lens_of(mixed, index).is_fisheye for index in (0, 1)] == [False, True]


def test_a_file_of_another_name_is_read_if_it_is_alone(tmp_path, caplog):
    path = write_transforms(tmp_path, 3)
    other = path.rename(tmp_path / "airbus_transforms.json")
    write_json(tmp_path / "metrics.json", {"psnr": 3})
    assert len(load_scene(tmp_path, split="none").splits["train"]) == 3
    assert caplog.messages == [f"no transforms.json in {tmp_path}; using {other.name}"]
    write_json(tmp_path / "second.json", json.loads(other.read_text()))
    with pytest.raises(InputError, match=r"one of them: airbus_transforms\.json, second\.json"):
        load_scene(tmp_path)
    assert len(load_scene(other, split="none").splits["train"]) == 3


def of_an_iphone(folder):
    path = write_transforms(folder, 1, w=64, h=48, cx=32, cy=24)
    (folder / "images/000.png").unlink()
    return rewrite(path, lambda i, frame: frame.update(file_path="images/000.HEIC"))


def test_images_of_an_iphone_are_read(tmp_path):
    heif = pytest.importorskip("pillow_heif", reason="needs pillow-heif, of the extra capture")
    path = of_an_iphone(tmp_path)
    heif.from_pillow(Image.new("RGB", (64, 48), "red")).save(tmp_path / "images/000.HEIC")
    scene = load_scene(path)
    red, green, _ = np.array(scene.views("train").image(0))[24, 32].tolist()
    assert red > 200 > 50 > green


def test_a_folder_around_the_scenes_is_refused_with_the_scenes(tmp_path):
    write_transforms(tmp_path / "unpacked/yard", 2)
    with pytest.raises(InputError, match=r"unpacked contains no scene, but its folder .*yard does"):
        load_scene(tmp_path / "unpacked")


def test_frames_without_a_pose_are_left_out_with_one_line(tmp_path, caplog):
    path = write_transforms(tmp_path, 5, frame={2: {"transform_matrix": None}})
    frames = load_scene(path, split="none").splits["train"]
    assert [frame.name for frame in frames] == [f"images/{n:03}.png" for n in (0, 1, 3, 4)]
    assert caplog.messages[0] == f"1 of 5 frames of {path} have no pose; using the other 4"
    rewrite(path, lambda _, frame: frame.update(transform_matrix=None))
    with pytest.raises(InputError, match="transform_matrix is null in all 5 frames"):
        load_scene(path)
