"""The up direction and its orbits, EXIF orientations, and files with a mirrored world."""

import json

import numpy as np
import pytest
from PIL import Image

from nerfmac import Camera, InputError, Lens, load_scene
from nerfmac.app.paths import orbit
from nerfmac.app.scenes.ply_points import write_ply_points
from tests.app.capture.corner import LENS as ANY_LENS, cameras, seen
from tests.app.scenes.projection import project
from tests.app.scenes.scene_files import (
    LENS,
    matrix,
    write_json,
    write_transforms,
    write_unplaced,
)

Z, Y = np.array([0.0, 0.0, 1.0]), np.array([0.0, 1.0, 0.0])


def upright(up: np.ndarray) -> np.ndarray:
    """A rotation (3, 3) that takes z to `up`."""
    east = np.cross([0.3, 0.5, -0.8], up)
    east /= np.linalg.norm(east)
    return np.stack([east, np.cross(up, east), up], axis=1)


def ring(up, *, degrees: float = 360.0, height: float = 1.0, roll: float = 0.0, count: int = 24):
    """Matrices of cameras in an arc around `up`, looking at a point, rolled by up to `roll`."""
    random, rotation = np.random.default_rng(count), upright(np.asarray(up, np.float64))
    matrices = []
    for angle in np.radians(np.linspace(0.0, degrees, count, endpoint=False)):
        eye = (3 * np.cos(angle), 3 * np.sin(angle), height)
        sky = (*(np.radians(roll) * random.uniform(-1, 1, 2)), 1.0)
        pose = Camera.look_at(eye, (0.1, 0.2, 0.0), sky, Lens.from_fov(1.0, 24, 16)).pose
        matrices.append([*(rotation @ pose).tolist(), [0.0, 0.0, 0.0, 1.0]])
    return matrices


def capture(folder, matrices, **top):
    return load_scene(write_unplaced(folder, matrices, **LENS, **top))


def degrees_apart(one, other) -> float:
    return float(np.degrees(np.arccos(np.clip(np.dot(one, other), -1.0, 1.0))))


@pytest.mark.parametrize("up", [Y, Z, -Y, [0.6, 0.0, -0.8]], ids=str)
@pytest.mark.parametrize("height", [0.0, 2.0])
def test_a_level_ring_says_which_way_is_up_and_its_orbit_is_level(tmp_path, up, height):
    scene = capture(tmp_path, ring(up, height=height))
    assert degrees_apart(scene.up, up) < 0.1
    assert np.linalg.norm(scene.up) == pytest.approx(1.0)
    path = orbit([frame.camera for frame in scene.splits["train"]], up=scene.up, frames=12)
    heights = [camera.pose[:, 3] @ up for camera in path]
    assert np.ptp(heights) < 1e-2
    for camera in path:
        assert abs(camera.pose[:, 0] @ up) < 2e-3, "a frame of the orbit is not level"
        assert camera.pose[:, 1] @ up > 0.5, "a frame of the orbit is not upright"


@pytest.mark.parametrize(("degrees", "height"), [(360, 1.0), (90, 0.0), (120, 2.5)])
def test_hand_held_cameras_are_right_to_a_few_degrees_from_however_high(tmp_path, degrees, height):
    scene = capture(tmp_path, ring([0.6, 0.0, 0.8], degrees=degrees, height=height, roll=8.0))
    assert degrees_apart(scene.up, [0.6, 0.0, 0.8]) < 5.0


def test_the_file_s_own_word_goes_before_its_cameras(tmp_path):
    assert capture(tmp_path, ring(Y), up=[0, 0, -2]).up == (0.0, 0.0, -1.0)
    assert capture(tmp_path, ring(Y), orientation_override="none").up == (0.0, 0.0, 1.0)
    assert degrees_apart(capture(tmp_path, ring(Y), orientation_override="up").up, Y) < 0.1


HALF, QUARTER = 3, 6
STORED = {HALF: lambda image: image[::-1, ::-1], QUARTER: lambda image: np.rot90(image, 1)}
"""By EXIF orientation, how the pixels of an upright image are stored."""


def tag(path, image, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(np.ascontiguousarray(image)).save(path, exif=exif, quality=95)


@pytest.fixture(scope="module")
def views():
    return [(camera, seen(camera)) for camera in cameras(6)]


def write_corner(folder, views, tagged, *, applied, points=True):
    """A scene of the corner; the orientation of `tagged` images is `applied` by its cameras."""
    frames = []
    (folder / "images").mkdir(parents=True)
    for index, (camera, image) in enumerate(views):
        path = folder / f"images/{index}.jpg"
        if index in tagged:
            tag(path, STORED[HALF](image) if applied else image, HALF)
        else:
            Image.fromarray(image).save(path, quality=95)
        matrix = [*camera.pose.astype(float).tolist(), [0.0, 0.0, 0.0, 1.0]]
        frames.append({"file_path": f"images/{index}.jpg", "transform_matrix": matrix})
    lens = {"w": ANY_LENS.width, "h": ANY_LENS.height, "fl_x": ANY_LENS.fl_x, "fl_y": ANY_LENS.fl_y}
    values = {**lens, "frames": frames}
    if points:
        random = np.random.default_rng(3)
        walls = random.uniform(0, 1.4, (900, 3))
        walls[np.arange(900), np.arange(900) % 3] = 0.0
        write_ply_points(folder / "points.ply", walls, np.full((900, 3), 128, np.uint8))
        values["ply_file_path"] = "points.ply"
    path = folder / "transforms.json"
    path.write_text(json.dumps(values))
    return path


def readings(path):
    frames = load_scene(path, split="none").splits["train"]
    return [frame.is_upright for frame in frames]


@pytest.mark.parametrize("applied", [True, False])
@pytest.mark.parametrize("tagged", [(1, 4), range(6)], ids=["some", "all"])
def test_the_colors_of_sparse_points_decide(tmp_path, views, tagged, applied, caplog):
    path = write_corner(tmp_path, views, tagged, applied=applied)
    read = readings(path)
    assert [read[index] for index in tagged] == [applied] * len(tagged)
    lines = [line for line in caplog.messages if "EXIF" in line]
    assert len(lines) == 1
    assert lines[0].startswith(f"{len(tagged)} of 6 images of {path} have an EXIF orientation")
    assert "because sparse points then have the same color in all images" in lines[0]


def test_without_evidence_pixels_are_read_as_stored_with_one_line(tmp_path, views, caplog):
    path = write_corner(tmp_path, views, (2,), applied=False, points=False)
    scene = load_scene(path, split="none")
    assert [frame.is_upright for frame in scene.splits["train"]][2] is False
    got = np.array(scene.views("train").image(2)).astype(int)
    assert np.abs(got - views[2][1]).mean() < np.abs(got[::-1, ::-1] - views[2][1]).mean() / 3
    (line,) = [line for line in caplog.messages if "EXIF" in line]
    assert "1 of them is read as stored, like COLMAP and instant-ngp" in line


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


def test_where_one_pose_mirrors_space_it_is_refused(tmp_path):
    pose = np.array(matrix(0))
    pose[:3] = AXES["x"] @ pose[:3]
    path = write_transforms(tmp_path, 3, frame={2: {"transform_matrix": pose.tolist()}})
    with pytest.raises(InputError, match=r"frame 2 \(images/002.png\): transform_matrix is a refl"):
        load_scene(path)


def test_a_user_says_up_in_the_files_axes(tmp_path):
    plain = load_scene(write(tmp_path / "plain", np.eye(3)), up=(0.3, 0.1, 1))
    scene = load_scene(write(tmp_path / "mirrored", AXES["y"]), up=(0.3, -0.1, 1))
    assert_alike(plain, scene)
