"""Pairs of images to match, and conversion of a structure to a level scene of its own size."""

import json

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.app.capture.capture import write_scene
from nerfmac.app.capture.pairs import in_sequence, in_space
from nerfmac.app.scenes import load_scene
from nerfmac.app.scenes.ply_points import read_ply_points
from nerfmac.geometry.lenses import distort
from tests.app.capture.structures import ring_of, write_images

TURN = np.linalg.qr(np.random.default_rng(4).normal(size=(3, 3)))[0]
TURN *= np.sign(np.linalg.det(TURN))


@pytest.fixture
def placed(tmp_path):
    structure = ring_of(12, scale=7.3, rotation=TURN, offset=np.array([4.0, -9.0, 2.5]))
    write_images(tmp_path / "images", [image.name for image in structure.model.images])
    write_scene(tmp_path, structure, is_object=False)
    return tmp_path, structure


def test_the_cameras_are_level_and_one_unit_from_what_they_look_at(placed):
    folder, _ = placed
    scene = load_scene(folder, split="none")
    poses = np.stack([frame.camera.pose for frame in scene.splits["train"]]).astype(float)
    eyes = poses[:, :, 3] - 0.5
    np.testing.assert_allclose(np.linalg.norm(eyes, axis=1), 1.0, atol=1e-5)
    np.testing.assert_allclose(eyes[:, 2], 1 / np.sqrt(5), atol=1e-5)
    np.testing.assert_allclose(poses[:, 2, 0], 0.0, atol=1e-6)  # right axes are level
    assert (poses[:, 2, 1] > 0.8).all()
    assert scene.up == (0.0, 0.0, 1.0)


def test_a_point_is_seen_at_the_same_pixel_as_in_the_structure(placed):
    folder, structure = placed
    scene = load_scene(folder, split="none")
    points = scene.points
    assert len(points) == 200
    for frame, image in zip(scene.splits["train"], structure.model.images, strict=True):
        assert frame.name.endswith(image.name)
        camera = frame.camera
        local = (points - camera.pose[:, 3]) @ camera.pose[:, :3] * [1, -1, -1]
        before = structure.points[:, :3] @ image.pose[:, :3].T + image.pose[:, 3]
        np.testing.assert_allclose(
            pixels(local, camera.lens), pixels(before, camera.lens), atol=0.01
        )


def pixels(local, lens):
    bent = mx.array([lens.distortion])
    at = np.array(distort(mx.array(local[:, :2] / local[:, 2:]), bent))
    return at * [lens.fl_x, lens.fl_y] + [lens.cx, lens.cy]


def test_the_file_has_what_other_programs_read(placed):
    folder, _ = placed
    values = json.loads((folder / "transforms.json").read_text())
    assert values["camera_model"] == "OPENCV"
    assert (values["w"], values["h"], values["fl_x"], values["k1"]) == (64, 48, 70.0, 0.05)
    assert values["ply_file_path"] == "points.ply"
    assert values["aabb_scale"] in (1, 2, 4, 8, 16)
    assert isinstance(values["aabb_scale"], int)
    assert [frame["file_path"] for frame in values["frames"]][:2] == [
        "images/00.png",
        "images/01.png",
    ]


def test_points_that_few_images_see_are_left_out(tmp_path):
    structure = ring_of(5, scale=1.0, rotation=np.eye(3), offset=np.zeros(3))
    structure.points[:80, 7] = 2
    write_images(tmp_path / "images", [image.name for image in structure.model.images])
    write_scene(tmp_path, structure, is_object=False)
    assert len(read_ply_points(tmp_path / "points.ply")) == 120


def test_images_of_two_lenses_have_each_their_own(tmp_path):
    structure = ring_of(6, scale=1.0, rotation=np.eye(3), offset=np.zeros(3))
    cameras, images = structure.model.cameras, structure.model.images
    cameras[2] = cameras[1]._replace(parameters={**cameras[1].parameters, "fl_x": 64.5})
    images[3] = images[3]._replace(camera=2)
    write_images(tmp_path / "images", [image.name for image in images])
    write_scene(tmp_path, structure, is_object=True)
    scene = load_scene(tmp_path, split="none")
    focal = [frame.camera.lens.fl_x for frame in scene.splits["train"]]
    assert focal == [70.0, 70.0, 70.0, 64.5, 70.0, 70.0]
    assert scene.extent == 1.0


NAMES = [f"{number:02}.jpg" for number in range(24)]


def ring(turns):
    """Return cameras on a circle of radius 2 that look at its middle."""
    poses = {}
    for name, angle in zip(NAMES, np.linspace(0, 2 * np.pi * turns, len(NAMES)), strict=True):
        back = np.array([np.cos(angle), np.sin(angle), 0])
        right = np.array([-np.sin(angle), np.cos(angle), 0])
        poses[name] = np.column_stack([right, np.cross(back, right), back, 2 * back])
    return poses


def test_a_ring_is_closed_where_it_ends_and_not_across():
    known = in_sequence(NAMES, 4)
    pairs = in_space(ring(1.0), 0.8, known)
    assert (NAMES[0], NAMES[23]) in pairs
    assert (NAMES[0], NAMES[12]) not in pairs, "these see two sides"
    assert not {*pairs} & {*known}
    assert {(int(other[:2]) - int(one[:2])) % 24 for one, other in pairs} <= {*range(20, 24)}


def test_cameras_in_one_place_that_look_apart_are_not_compared():
    poses = {name: np.column_stack([np.eye(3), np.zeros(3)]) for name in NAMES[:3]}
    turned = np.column_stack([np.diag([-1, 1, -1]), np.zeros(3)])
    pairs = in_space({**poses, NAMES[3]: turned}, 1.0, [])
    assert all(NAMES[3] not in pair for pair in pairs)
    assert len(pairs) == 3
