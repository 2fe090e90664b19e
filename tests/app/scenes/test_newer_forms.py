"""Newer forms of the files of programs and apps are read as the programs mean them."""

import json

import numpy as np
import pytest

from nerfmac import InputError, load_scene
from tests.app.scenes import depth_scenes
from tests.app.scenes.depth_scenes import LENS, box_views
from tests.app.scenes.scene_files import matrix, write_json, write_transforms
from tests.app.scenes.test_phone_captures import COUNT, polycam


def edited(path, change):
    """Return a JSON file after `change` of its values."""
    values = json.loads(path.read_text())
    change(values)
    return write_json(path, values)


def names(scene):
    return {split: [frame.name[-7:-4] for frame in part] for split, part in scene.splits.items()}


@pytest.mark.parametrize("lists", [("test",), ("val", "test"), ("val",)])
def test_frames_of_other_splits_are_these_splits(tmp_path, lists, caplog):
    def split(values):
        for number, name in enumerate(lists):
            values[f"{name}_frames"] = [values["frames"].pop() for _ in range(2 + number)]

    path = edited(write_transforms(tmp_path, 12), split)
    scene = load_scene(path)
    assert list(scene.splits) == ["train", *lists]
    assert names(scene)[lists[0]] == ["011", "010"]
    assert len(scene.splits["train"]) == 12 - sum(2 + n for n in range(len(lists)))
    assert caplog.messages == []


def test_frames_that_are_marked_as_bad_are_not_used_and_not_called_missing(tmp_path, caplog):
    bad = {index: {"is_bad": index in (2, 5)} for index in range(9)}
    scene = load_scene(write_transforms(tmp_path, 9, frame=bad), split="none")
    assert names(scene)["train"] == ["000", "001", "003", "004", "006", "007", "008"]
    (line,) = caplog.messages
    assert "2 of 9 frames of " in line
    assert "are marked as bad (is_bad) and are not used, such as images/002.png" in line


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("holdout_frames", [{"file_path": "a.png", "transform_matrix": matrix(1)}]),
        ("distortion_params", [0.1, -0.02, 0, 0]),
        ("dist_coeffs", {"r1": 0.2}),
        ("radial_distortion", 0.05),
        ("principal_point", [12.0, 8.0]),
    ],
)
def test_an_unknown_key_that_changes_the_result_is_refused(tmp_path, key, value):
    def change(values):
        del values["cx"], values["cy"]
        values[key] = value

    with pytest.raises(InputError, match=f"transforms.json: {key} is .*; expected "):
        load_scene(edited(write_transforms(tmp_path, 9), change))


VIEWS = box_views()
FOCAL = np.linspace(24.0, 31.0, len(VIEWS))


def stray(folder, columns, row):
    """A Stray Scanner capture with more columns in its odometry."""
    depth_scenes.stray_scanner(folder, VIEWS, LENS)
    header, *lines = (folder / "odometry.csv").read_text().split("\n")
    lines = [f"{line}, {row(index)}" for index, line in enumerate(lines)]
    (folder / "odometry.csv").write_text("\n".join([f"{header}, {columns}", *lines]))
    return folder


@pytest.mark.parametrize("more", ["", ", distortion_center_x, distortion_center_y"])
def test_stray_scanners_intrinsics_of_each_frame_are_used(tmp_path, more):
    def row(index):
        return f"{FOCAL[index]}, {FOCAL[index] + 1}, 15.5, 12.5" + ",  , " * bool(more)

    scene = load_scene(stray(tmp_path, "fx, fy, cx, cy" + more, row), split="none")
    lenses = [frame.camera.lens for frame in scene.splits["train"]]
    np.testing.assert_allclose([lens.fl_x for lens in lenses], FOCAL)
    np.testing.assert_allclose([lens.fl_y for lens in lenses], FOCAL + 1)
    assert {(lens.cx, lens.cy) for lens in lenses} == {(15.5, 12.5)}


def test_frames_without_intrinsics_have_those_of_the_matrix(tmp_path):
    scene = load_scene(stray(tmp_path, "fx, fy, cx, cy", lambda index: ", , , "), split="none")
    assert {frame.camera.lens.fl_x for frame in scene.splits["train"]} == {LENS.fl_x}


def test_a_video_that_is_shorter_than_its_poses_is_read_with_a_line(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("NERFMAC_CACHE", str(tmp_path / "100%d cache"))  # "%d" is no pattern here.
    folder = tmp_path / "scan"
    depth_scenes.stray_scanner(folder, VIEWS, LENS)
    path = folder / "odometry.csv"
    rows = path.read_text().splitlines()
    last = rows[-1].split(", ")
    count = len(rows) - 1
    rows += [", ".join([last[0], f"{count + more:06d}", *last[2:]]) for more in range(3)]
    path.write_text("\n".join(rows))
    assert len(load_scene(folder, split="none").splits["train"]) == count
    assert f"3 of {count + 3} poses in {path} have no frame in rgb.mp4" in caplog.text


def test_stray_scanners_lens_distortion_is_refused(tmp_path):
    folder = stray(tmp_path, "distortion_center_x, distortion_center_y", lambda index: "16, 12")
    with pytest.raises(InputError, match=r"contains lens distortion \(distortion_center_x"):
        load_scene(folder)


@pytest.mark.parametrize("kept", [0, 3, COUNT])
def test_corrected_images_are_used_only_if_all_exist(tmp_path, kept, caplog):
    polycam(tmp_path)
    polycam(tmp_path, corrected=True)
    for path in sorted((tmp_path / "keyframes/corrected_images").iterdir())[kept:]:
        path.unlink()
    scene = load_scene(tmp_path, split="none")
    folders = {frame.image.parent.name for frame in scene.splits["train"]}
    assert folders == {"corrected_images" if kept == COUNT else "images"}
    assert len(scene.splits["train"]) == COUNT
    assert caplog.messages == []
