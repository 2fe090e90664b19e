"""Findings about implausible intrinsics, and about splits with few views."""

import re
from dataclasses import replace

import numpy as np
import pytest

from nerfmac.app.inspection import inspect_scene
from nerfmac.app.inspection.cameras import lens_findings
from nerfmac.app.scenes import load_scene
from nerfmac.geometry.lenses import Lens
from tests.app.scenes.scene_files import write_blender, write_transforms
from tests.scene_factory import nerfmac

LENS = Lens.from_fov(1.2, 96, 64)
NAMES = ["a", "b", "c"]


def findings(**values):
    return lens_findings(NAMES, [LENS, replace(LENS, **values), replace(LENS, **values)])


@pytest.mark.parametrize(
    "values",
    [
        {"k1": -0.3, "k2": 0.1, "p1": 0.002},
        {"fl_y": LENS.fl_x * 1.02},
        {"k1": 0.05, "k2": 0.01, "is_fisheye": True},
        {"cx": 38.0},
    ],
)
def test_lenses_of_cameras_are_not_named(values):
    assert findings(**values) == []


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"fl_x": 2e7, "fl_y": 2e7}, "degrees, which no camera has"),
        ({"cx": 20.0}, "principal point"),
        ({"cy": 64.0}, "principal point"),
        ({"k1": 46.0}, "k1 46"),
        ({"p2": 0.4}, "p2 0.4"),
        ({"k4": 9.0, "is_fisheye": True}, "k4 9"),
        ({"fl_y": LENS.fl_x * 1.2}, "fl_y / fl_x is 1.2 "),
        ({"fl_y": LENS.fl_x / 1.2}, "fl_y / fl_x is 0.833 "),
    ],
)
def test_an_odd_lens_is_named_once(values, words):
    (line,) = findings(**values)
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
