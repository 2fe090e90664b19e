"""A file with a mirrored world gives the same cameras and points as the unmirrored file."""

import json

import numpy as np
import pytest

from nerfmac.app.scenes import load_scene
from nerfmac.app.scenes.ply_points import write_ply_points
from nerfmac.common.checks import InputError
from tests.app.scenes.projection import project
from tests.app.scenes.scene_files import matrix, write_blender, write_json, write_transforms

AXES = {
    "x": np.diag([-1.0, 1, 1]),
    "y": np.diag([1.0, -1, 1]),
    "z": np.diag([1.0, 1, -1]),
    "y and z exchanged": np.eye(3)[[0, 2, 1]],
    "any plane": np.eye(3) - 2 * np.outer([0.6, -0.48, 0.64], [0.6, -0.48, 0.64]),
}
POINTS = np.random.default_rng(4).normal(size=(40, 3)) * (0.9, 0.5, 0.3) + (0.1, 0.2, 0.3)
UP = np.array([0.1, -0.2, 1.0])
PLACED = {"aabb_scale": 4, "scale": 0.2, "offset": [0.4, 0.55, 0.7]}


def write(folder, world, **more):
    """Write a transforms.json, its world multiplied with `world`; with points."""
    path = write_transforms(folder, 7)
    values = json.loads(path.read_text())
    del values["aabb_scale"]
    for frame in values["frames"]:
        pose = np.array(frame["transform_matrix"])
        pose[:3] = world @ pose[:3]
        frame["transform_matrix"] = pose.tolist()
    write_ply_points(folder / "points.ply", POINTS @ world.T, np.zeros((40, 3), np.uint8))
    values |= {"ply_file_path": "points.ply", "up": (world @ UP).tolist()}
    return write_json(path, values | more)


def frames(scene):
    return [frame for frames in scene.splits.values() for frame in frames]


def assert_alike(one, other):
    assert one.extent == other.extent
    pairs = list(zip(frames(one), frames(other), strict=True))
    first, second = (frame.camera.pose.astype(np.float64) for frame in pairs[0])
    turn = second[:, :3] @ first[:, :3].T
    shift = second[:, 3] - turn @ first[:, 3]
    np.testing.assert_allclose(turn @ np.full(3, 0.5) + shift, 0.5, atol=1e-5, err_msg="the cube")
    for ours, theirs in pairs:
        assert np.linalg.det(theirs.camera.pose[:, :3]) == pytest.approx(1.0, abs=1e-5)
        moved = turn @ ours.camera.pose + np.pad(shift[:, None], ((0, 0), (3, 0)))
        np.testing.assert_allclose(moved, theirs.camera.pose, atol=1e-5)
        for point, there in zip(one.points, other.points, strict=True):
            pixel = project(ours.camera, point)
            np.testing.assert_allclose(project(theirs.camera, there), pixel, atol=1e-2)
    np.testing.assert_allclose(turn @ one.up, other.up, atol=1e-5)


@pytest.mark.parametrize("world", AXES.values(), ids=AXES)
@pytest.mark.parametrize("placed", [{}, PLACED], ids=["fitted", "placed"])
def test_a_mirrored_world_is_read_as_the_one_it_mirrors(tmp_path, world, placed, caplog):
    plain = load_scene(write(tmp_path / "plain", np.eye(3), **placed))
    assert caplog.messages == []
    if placed:  # the cube must have the same contents
        away = np.array(placed["offset"]) - 0.5
        placed = placed | {"offset": (0.5 + world @ away).tolist()}
    scene = load_scene(write(tmp_path / "mirrored", world, **placed))
    assert_alike(plain, scene)
    (told,) = caplog.messages
    assert "all 7 poses are reflections" in told
    found = np.array(scene.placement.to_file(scene.points))
    np.testing.assert_allclose(found, POINTS @ world.T, atol=1e-5)


def test_a_user_says_up_in_the_files_axes(tmp_path):
    plain = load_scene(write(tmp_path / "plain", np.eye(3)), up=(0.3, 0.1, 1))
    scene = load_scene(write(tmp_path / "mirrored", AXES["y"]), up=(0.3, -0.1, 1))
    assert_alike(plain, scene)


def test_blenders_files_are_mirrored_too(tmp_path, caplog):
    write_blender(tmp_path / "plain", train=4, test=2)
    write_blender(tmp_path / "mirrored", train=4, test=2)
    for split in ("train", "test"):
        path = tmp_path / f"mirrored/transforms_{split}.json"
        values = json.loads(path.read_text())
        for index, frame in enumerate(values["frames"]):
            pose = np.array(matrix(index))
            pose[:3] = AXES["z"] @ pose[:3]
            frame["transform_matrix"] = pose.tolist()
        write_json(path, values)
    plain, scene = (load_scene(tmp_path / name) for name in ("plain", "mirrored"))
    assert len(caplog.messages) == 1
    for ours, theirs in zip(frames(plain), frames(scene), strict=True):
        turn = np.diag([-1.0, 1, -1])  # both mirrorings together: half a turn about y
        np.testing.assert_allclose(turn @ ours.camera.pose[:, :3], theirs.camera.pose[:, :3])
        place = 0.5 + turn @ (ours.camera.pose[:, 3] - 0.5)
        np.testing.assert_allclose(place, theirs.camera.pose[:, 3], atol=1e-6)


def test_where_one_pose_mirrors_space_it_is_refused(tmp_path):
    pose = np.array(matrix(0))
    pose[:3] = AXES["x"] @ pose[:3]
    path = write_transforms(tmp_path, 3, frame={2: {"transform_matrix": pose.tolist()}})
    with pytest.raises(InputError, match=r"frame 2 \(images/002.png\): transform_matrix is a refl"):
        load_scene(path)
