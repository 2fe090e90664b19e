"""Records of scenes and files of points come back as they were, or are refused by key."""

import json
from pathlib import Path

import numpy as np
import pytest

from nerfmac.app.scenes import load_scene, read_again
from nerfmac.app.scenes.ply_points import read_ply_points
from nerfmac.app.scenes.record import SceneRecord
from nerfmac.common import Fields, as_json, read_as
from tests.app.scenes.scene_files import matrix, write_json, write_transforms

PATH = Path("runs/a/scene.json")


@pytest.fixture
def record(tmp_path) -> SceneRecord:
    return SceneRecord.of(
        load_scene(
            write_transforms(tmp_path, 3, k1=0.1, camera_model="OPENCV_FISHEYE"), split="none"
        )
    )


def test_a_record_comes_back_from_json_as_it_was(record):
    values = json.loads(json.dumps(as_json(record)))
    read = read_as(SceneRecord, Fields.of(values, str(PATH)))
    assert (read.path, read.options.split, read.extent) == (record.path, "none", record.extent)
    assert read.up == record.up
    assert read.placement.scale == record.placement.scale
    np.testing.assert_array_equal(read.placement.offset, record.placement.offset)
    np.testing.assert_array_equal(read.placement.rotation, record.placement.rotation)
    for got, want in zip(read.cameras, record.cameras, strict=True):
        assert got.lens == want.lens
        np.testing.assert_array_equal(got.pose, want.pose)
    fewer = load_scene(record.path, split="none", downscale=2, max_images=2)
    values = json.loads(json.dumps(as_json(SceneRecord.of(fewer))))
    read = read_as(SceneRecord, Fields.of(values, str(PATH)))
    assert (read.options.downscale, read.options.max_images, len(read.cameras)) == (2, 2, 2)
    again = read_again(read)
    assert json.loads(json.dumps(as_json(SceneRecord.of(again)))) == values
    bare = {**values, "path": None, "placement": None}
    assert read_as(SceneRecord, Fields.of(bare, str(PATH))).path is None
    assert read_as(SceneRecord, Fields.of(bare, str(PATH))).placement is None


@pytest.mark.parametrize("split", ["none", 2, 0.4, ["images/001.png"]])
def test_a_record_reads_its_scene_again_with_all_it_was_told(tmp_path, split):
    path = write_transforms(tmp_path, 5)
    scene = load_scene(path, split=split, extent=1.5, up=(0, -3, 0.1), downscale=2)
    values = json.loads(json.dumps(as_json(SceneRecord.of(scene))))
    read = read_as(SceneRecord, Fields.of(values, str(PATH)))
    assert read.options == scene.options
    again = read_again(read)
    assert json.loads(json.dumps(as_json(SceneRecord.of(again)))) == values
    named = [[frame.name for frame in each.splits.get("test", ())] for each in (scene, again)]
    assert named[0] == named[1]


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
