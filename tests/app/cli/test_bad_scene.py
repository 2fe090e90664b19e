"""A scene that cannot be trained on is refused, and no run is begun."""

import json
import math

import pytest

from tests.app.cli.refusals import train_refused


def edit_transforms(scene, split, change):
    path = scene / f"transforms_{split}.json"
    values = json.loads(path.read_text())
    change(values["frames"])
    path.write_text(json.dumps(values))


def set_entry(row, column, value):
    def change(frames):
        frames[1]["transform_matrix"][row][column] = value

    return change


def test_a_folder_that_is_missing_or_empty(capsys, tmp_path):
    nowhere = tmp_path / "nowhere"
    train_refused(capsys, tmp_path, nowhere, names=[f"{nowhere} does not exist"])
    nowhere.mkdir()
    train_refused(capsys, tmp_path, nowhere, names=[f"{nowhere} is empty"])


def test_broken_json(capsys, tmp_path, scene):
    (scene / "transforms_train.json").write_text('{"frames": [')
    train_refused(capsys, tmp_path, scene, names=["transforms_train.json", "not valid JSON"])


@pytest.mark.parametrize(
    ("split", "value", "what"),
    [("train", math.nan, "finite"), ("train", 3.0, "not rigid"), ("test", 3.0, "not rigid")],
)
def test_a_camera_that_is_no_camera(capsys, tmp_path, scene, split, value, what):
    edit_transforms(scene, split, set_entry(0, 0, value))
    names = [f"transforms_{split}.json, frame 1 (./{split}/r_1)", what]
    train_refused(capsys, tmp_path, scene, names=names)


@pytest.mark.parametrize("split", ["train", "test"])
def test_a_image_cut_short(capsys, tmp_path, scene, split):
    path = scene / split / "r_1.png"
    path.write_bytes(path.read_bytes()[:-40])  # its header is whole
    train_refused(capsys, tmp_path, scene, names=[f"{split}/r_1"])
