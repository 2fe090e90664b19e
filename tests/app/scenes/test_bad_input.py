"""Every scene that cannot be read is refused with its file, its frame and what would be right."""

import json
import math

import numpy as np
import pytest

from nerfmac import InputError, load_scene
from tests.app.scenes.scene_files import (
    LENS,
    matrix,
    pixels,
    save,
    write_json,
    write_transforms,
)


def refused(path, *parts: str, **options) -> None:
    with pytest.raises(InputError) as caught:
        load_scene(path, **options)
    for part in parts:
        assert part in str(caught.value), f"{part!r} is not in: {caught.value}"


def test_what_is_no_scene_folder_is_refused(tmp_path):
    refused(tmp_path / "nowhere", "nowhere does not exist")
    sought = "searched for transforms.json", "transforms_train.json"
    refused(tmp_path, f"{tmp_path} is empty", *sought)
    save(tmp_path / "images/000.png", pixels(0))
    poses = "do not contain camera poses", "nerfmac capture"
    refused(tmp_path, f"{tmp_path} contains no scene", *sought, *poses)
    refused(tmp_path / "images/000.png", "000.png is not a scene", "transforms.json", *poses)


def test_missing_keys_are_refused(tmp_path):
    refused(write_json(tmp_path / "transforms.json", LENS), "transforms.json: frames is missing")
    path = write_transforms(tmp_path, 1)
    values = json.loads(path.read_text())
    for key in ("transform_matrix", "file_path"):
        frame = {name: value for name, value in values["frames"][0].items() if name != key}
        refused(write_json(path, values | {"frames": [frame]}), "frame 0", f"{key} is missing")
    for key in ("fl_x", "fl_y"):
        del values[key]
    refused(write_json(path, values), "frame 0", "no focal length; expected fl_x or camera_angle_x")


TOP_LEVEL = [
    ("fl_x", -30.0, "expected a finite number above 0"),
    ("fl_x", math.nan, "expected a finite number"),
    ("w", 24.5, "expected a whole number"),
    ("aabb_scale", 256, "up to 128"),
    ("scale", 0, "expected a finite number above 0"),
    ("offset", [0.5, 0.5], "expected a list of 3 finite numbers"),
    ("is_fisheye", 1, "expected true or false"),
    ("ftheta_p0", 1, "one of OpenCV's two camera models: undistort"),
    ("K", [[30, 0, 11], [0, 29, 8]], "K is [[30, 0, 11], [0, 29, 8]]; expected 3 rows"),
    ("K", [[30, 2, 11], [0, 29, 8], [0, 0, 1]], "positive focal lengths and no skew"),
    ("mask_color", [0, 0, 0, 1], "expected images with an alpha channel"),
    ("rolling_shutter", [0.0, 0.0, 0.5, 0.0], "a global shutter"),
    ("from_na", True, "expected poses with OpenGL axes"),
    ("up", [0, 0, 0], "three numbers that are not all zero"),
]


@pytest.mark.parametrize(("key", "value", "expected"), TOP_LEVEL)
def test_an_impossible_value_is_refused_with_its_key(tmp_path, key, value, expected):
    path = write_transforms(tmp_path, 2, **{key: value})
    refused(path, f"{path}: {key} is ", expected)


def changed(change) -> list[list[float]]:
    values = np.array(matrix(1))
    change(values)
    return values.tolist()


MATRICES = {
    "nan": (changed(lambda m: m.__setitem__((1, 2), math.nan)), "row 1 is", "finite numbers"),
    "scaled": (changed(lambda m: m.__imul__([[2, 2, 2, 1]])), "not rigid", "a rotation and a pos"),
    "zero": (
        np.zeros((4, 4)).tolist(),
        "transform_matrix is [0.0, 0.0, 0.0, 0.0]",
        "expected [0, 0, 0, 1]",
    ),
    "mirrored": (
        changed(lambda m: m.__imul__([[1, 1, -1, 1]])),
        "is a reflection",
        "expected a rotation",
    ),
    "three columns": (np.eye(4, 3).tolist(), "row 0 is", "a list of 4 finite numbers"),
    "flat": (list(range(16)), "transform_matrix is", "4 rows of 4 numbers"),
}


@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("placed", [True, False], ids=["placed", "fitted"])
def test_a_matrix_that_is_no_pose_is_refused_with_its_frame(tmp_path, name, placed):
    values, *parts = MATRICES[name]
    path = write_transforms(tmp_path, 3, frame={1: {"transform_matrix": values}})
    if not placed:
        content = json.loads(path.read_text())
        del content["aabb_scale"]
        write_json(path, content)
    refused(path, f"{path}, frame 1 (images/001.png)", *parts)


def test_a_file_that_is_no_image_is_refused_before_decoding(tmp_path, monkeypatch):
    path = write_transforms(tmp_path, 3)
    (tmp_path / "images/001.png").write_text("not an image")
    refused(path, "001.png is not a readable image")
    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", lambda self: pytest.fail("decoded"))
    assert load_scene(write_transforms(tmp_path, 3)).splits["train"]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le"])
def test_json_in_another_unicode_encoding_is_read(tmp_path, encoding):
    path = write_transforms(tmp_path, 3)
    path.write_bytes(path.read_text().encode(encoding))
    assert len(load_scene(path, split="none").splits["train"]) == 3
