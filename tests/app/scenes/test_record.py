"""Scenes of runs and files of points come back as they were, or are refused by key."""

import json

import numpy as np
import pytest

from nerfmac import Scene
from nerfmac.app.run.folder import read_scene, write_scene
from nerfmac.app.scenes import load_scene, read_again
from nerfmac.app.scenes.ply_points import read_ply_points
from nerfmac.common import InputError
from tests.app.scenes.scene_files import matrix, write_json, write_transforms


def saved(scene, folder) -> Scene:
    """Save the scene as that of a run, and read it."""
    (folder / "config.json").touch()
    write_scene(folder, scene.recorded())
    return read_scene(folder)


def test_a_scene_comes_back_from_a_run_without_its_images(tmp_path):
    path = write_transforms(tmp_path, 3, k1=0.1, camera_model="OPENCV_FISHEYE")
    scene = load_scene(path, split="none")
    read = saved(scene, tmp_path)
    for name in ("path", "options", "extent", "name", "up", "has_alpha", "depth_reading"):
        assert getattr(read, name) == getattr(scene, name)
    np.testing.assert_equal(read.placement, scene.placement)
    for got, want in zip(read.splits["train"], scene.splits["train"], strict=True):
        assert (got.name, got.camera.lens) == (want.name, want.camera.lens)
        np.testing.assert_array_equal(got.camera.pose, want.camera.pose)


@pytest.mark.parametrize("split", ["none", 2, 0.4, ["images/001.png"]])
def test_the_scene_of_a_run_is_read_again_with_all_that_it_was_told(tmp_path, split):
    options = {"extent": 1.5, "up": (0, -3, 0.1), "downscale": 2, "max_images": 4}
    scene = load_scene(write_transforms(tmp_path, 5), split=split, **options)
    read = saved(scene, tmp_path)
    first = (tmp_path / "scene.json").read_text()
    assert read.options == scene.options
    saved(read_again(read), tmp_path)
    assert (tmp_path / "scene.json").read_text() == first


def test_the_scene_of_another_version_is_refused_in_one_line(tmp_path):
    path = tmp_path / "scene.json"
    saved(load_scene(write_transforms(tmp_path, 3)), tmp_path)
    values = json.loads(path.read_text())
    for schema in (values.pop("schema") + 1, 1):
        path.write_text(json.dumps(values | {"schema": schema}))
        with pytest.raises(InputError, match=f"scene.json is {schema}, .* train a new run$"):
            read_scene(tmp_path)


POINTS = np.array([[0.5, -1.25, 3.0], [0.25, 2.0, -4.5], [8.0, 0.125, 1.0]])
HEADER = """ply
format {}
comment made by a test
element vertex {}
property uchar red
property {} x
property {} y
property {} z
{}end_header
"""


def write_ply(path, *, points=POINTS, form="binary_little_endian 1.0", kind="float", rest=""):
    header = HEADER.format(form, len(points), kind, kind, kind, rest).encode()
    if form.startswith("ascii"):
        body = "".join(f"7 {x} {y} {z}\n" for x, y, z in points).encode()
    else:
        order = "<" if "little" in form else ">"
        width = order + {"float": "f4", "double": "f8"}[kind]
        table = np.zeros(len(points), [("red", "u1"), *((name, width) for name in "xyz")])
        for index, name in enumerate("xyz"):
            table[name] = points[:, index]
        body = table.tobytes()
    path.write_bytes(header + body + b"3 0 1 2\n" * bool(rest))
    return path


@pytest.mark.parametrize("kind", ["float", "double"])
@pytest.mark.parametrize("form", ["ascii 1.0", "binary_little_endian 1.0", "binary_big_endian 1.0"])
@pytest.mark.parametrize(
    "rest", ["", "element face 1\nproperty list uchar int vertex_indices\n"], ids=["points", "mesh"]
)
def test_the_points_are_read_whatever_the_form(tmp_path, form, kind, rest):
    path = write_ply(tmp_path / "a.ply", form=form, kind=kind, rest=rest)
    np.testing.assert_array_equal(read_ply_points(path), POINTS)


def nerfstudio(folder, **more):
    path = write_transforms(folder, 5)
    frames = [{"file_path": f"images/{i:03d}.png", "transform_matrix": matrix(i)} for i in range(5)]
    return write_json(path, {"fl_x": 30.0, "frames": frames, **more})


def test_nerfstudios_points_say_how_large_a_scene_is(tmp_path, caplog):
    path = nerfstudio(tmp_path, ply_file_path="sparse_pc.ply")
    assert load_scene(path).extent == 4.0
    assert caplog.messages == [f"{path}: ply_file_path sparse_pc.ply does not exist"]
    write_ply(tmp_path / "sparse_pc.ply", points=np.array([[20.0, 1, 2], [3, -25, 1], [9, 9, 9.0]]))
    assert load_scene(path).extent == 16.0


def test_points_outside_the_scenes_folder_are_not_read(tmp_path, caplog):
    path = nerfstudio(tmp_path / "scene", ply_file_path="../sparse_pc.ply")
    write_ply(tmp_path / "sparse_pc.ply", points=30 * POINTS)
    assert load_scene(path).extent == 4.0
    assert len(caplog.messages) == 1
