"""Points of PLY files, in every form, and a scene that is as large as they ask for."""

import numpy as np
import pytest

from nerfmac.app.scenes import load_scene
from nerfmac.app.scenes.ply_points import read_ply_points, write_ply_points
from nerfmac.common.checks import InputError
from tests.app.scenes.scene_files import matrix, write_json, write_transforms

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


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content[:-3],
        lambda content: content.replace(b"ply", b"pie", 1),
        lambda content: content.replace(b"property float z", b"property float w"),
        lambda content: content.replace(b"float", b"quad"),
        lambda content: content.replace(b"end_header", b"end"),
        lambda content: b"",
    ],
)
def test_what_is_no_file_of_points_is_refused(tmp_path, change):
    path = write_ply(tmp_path / "sparse_pc.ply")
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(InputError, match=r"sparse_pc\.ply is not a complete PLY file of points"):
        read_ply_points(path)


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


def test_points_that_are_written_are_read(tmp_path):
    points = np.random.default_rng(2).normal(size=(7, 3))
    colors = np.arange(21, dtype=np.uint8).reshape(7, 3)
    write_ply_points(tmp_path / "p.ply", points, colors)
    np.testing.assert_allclose(read_ply_points(tmp_path / "p.ply"), points, atol=1e-6)
    content = (tmp_path / "p.ply").read_bytes()
    assert content.endswith(bytes([18, 19, 20]))
    assert b"property uchar red" in content
