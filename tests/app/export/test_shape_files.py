"""Meshes and points come back from their files as they were."""

import json
import struct
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest

from nerfmac.app.export import Mesh, Points

# Imported inside functions, because it imports SciPy and each test process imports this file.
pytestmark = pytest.mark.skipif(find_spec("trimesh") is None, reason="needs the extra export")

VERTICES = np.array([[0.1, 2.0, -3.0], [1.0, 0.5, 0.25], [-4.0, 1.5, 1.0], [0.3, 0.2, 5.0]])
NORMALS = np.array([[1, 0, 0], [0, 0.6, 0.8], [0, 0, 1], [-0.6, 0.8, 0]], np.float32)
COLORS = np.array([[255, 0, 10], [3, 128, 64], [200, 100, 50], [0, 255, 1]], np.uint8)
FACES = np.array([[0, 1, 2], [3, 2, 1]], np.int32)
MESH = Mesh(VERTICES, NORMALS, COLORS, FACES)


@pytest.mark.parametrize("name", ["a.ply", "a.PLY", "a.obj"])
def test_a_mesh_comes_back_from_its_file(tmp_path, name):
    import trimesh

    MESH.save(tmp_path / name)
    read = trimesh.load_mesh(tmp_path / name, process=False, maintain_order=True)
    assert read.vertices == pytest.approx(VERTICES, abs=1e-6)
    assert np.array_equal(read.faces, FACES)
    assert np.array_equal(read.visual.vertex_colors[:, :3], COLORS)
    assert normals_in(tmp_path / name) == pytest.approx(NORMALS, abs=1e-6)


def normals_in(path):
    """The normals in a file; trimesh makes its own from the faces when it reads one."""
    content = path.read_bytes()
    if path.suffix == ".obj":
        lines = [line.split() for line in content.decode().splitlines()]
        return np.array([line[1:] for line in lines if line and line[0] == "vn"], float)
    _, _, rest = content.partition(b"end_header\n")
    row = struct.Struct("<6f3B")
    return np.array([row.unpack_from(rest, row.size * each)[3:6] for each in range(4)])


def test_points_come_back_from_their_file(tmp_path):
    import trimesh

    Points(VERTICES, NORMALS, COLORS).save(tmp_path / "p.ply")
    read = trimesh.load(tmp_path / "p.ply")
    assert read.vertices == pytest.approx(VERTICES, abs=1e-6)
    assert np.array_equal(read.colors[:, :3], COLORS)
    assert normals_in(tmp_path / "p.ply") == pytest.approx(NORMALS, abs=1e-6)


@pytest.fixture
def glb(tmp_path):
    """Return the JSON part of a GLB file, and the contents of its accessors by attribute."""
    MESH.save(tmp_path / "a.glb")
    content = (tmp_path / "a.glb").read_bytes()
    (length,) = struct.unpack_from("<I", content, 12)
    tree, rest = json.loads(content[20 : 20 + length]), content[28 + length :]

    def read(attribute):
        number = tree["meshes"][0]["primitives"][0]["attributes"][attribute]
        accessor = tree["accessors"][number]
        assert (accessor["componentType"], accessor["type"]) == (5126, "VEC3")
        first = tree["bufferViews"][accessor["bufferView"]]["byteOffset"]
        count = 3 * accessor["count"]
        return np.frombuffer(rest, "<f4", count, first).reshape(-1, 3)

    return tree, read


def test_a_glb_holds_linear_colors_and_an_unlit_material(glb):
    tree, read = glb
    color = COLORS / 255
    linear = np.where(color <= 0.04045, color / 12.92, ((color + 0.055) / 1.055) ** 2.4)
    assert read("COLOR_0") == pytest.approx(linear, abs=1e-5)
    primitive = tree["meshes"][0]["primitives"][0]
    assert set(primitive["attributes"]) == {"POSITION", "NORMAL", "COLOR_0"}
    assert "KHR_materials_unlit" in tree["materials"][primitive["material"]]["extensions"]
    assert tree["extensionsUsed"] == ["KHR_materials_unlit"]
    assert "extras" not in tree["asset"]


@pytest.mark.parametrize("up", [(0, -1, 0), (0, 0, -1), (1, 0, 0), (0.48, -0.6, 0.64)])
def test_a_glbs_root_turns_the_up_direction_of_the_scene_to_y(tmp_path, up):
    replace(MESH, up=up, name="tree").save(tmp_path / "a.glb")
    content = (tmp_path / "a.glb").read_bytes()
    (length,) = struct.unpack_from("<I", content, 12)
    tree = json.loads(content[20 : 20 + length])
    (node,) = [node for node in tree["nodes"] if "matrix" in node]
    matrix = np.reshape(node["matrix"], (4, 4)).T
    assert matrix[:3, :3] @ up == pytest.approx([0, 1, 0], abs=1e-6)
    assert np.linalg.det(matrix[:3, :3]) == pytest.approx(1.0)
    assert [mesh["name"] for mesh in tree["meshes"]] == ["tree"] == [node["name"]]


UTM = np.array([500123.0, 4649876.0, 214.0])


def test_a_ply_file_has_double_precision_if_the_coordinates_are_large(tmp_path):
    import trimesh

    far = Mesh(VERTICES + UTM, NORMALS, COLORS, FACES)
    far.save(tmp_path / "far.ply")
    header = (tmp_path / "far.ply").read_bytes().partition(b"end_header")[0]
    assert b"property double x" in header
    read = trimesh.load_mesh(tmp_path / "far.ply", process=False, maintain_order=True)
    assert np.abs(read.vertices - (VERTICES + UTM)).max() < 1e-8
    assert np.array_equal(read.faces, FACES)
    Points(VERTICES + UTM, NORMALS, COLORS).save(tmp_path / "p.ply")
    read = trimesh.load(tmp_path / "p.ply")
    assert np.abs(read.vertices - (VERTICES + UTM)).max() < 1e-8
    MESH.save(tmp_path / "near.ply")
    assert b"property float x" in (tmp_path / "near.ply").read_bytes()
