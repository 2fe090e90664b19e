"""transforms.json of instant-ngp and nerfstudio: lenses, placement, absent images, the split."""

import numpy as np
import pytest

from nerfmac import Camera, Lens, load_scene
from tests.app.scenes.scene_files import (
    HEIGHT,
    LENS,
    WIDTH,
    matrix,
    pixels,
    save,
    write_json,
    write_transforms,
    write_unplaced,
)


def lens_of(path, index=0):
    return load_scene(path, split="none").splits["train"][index].camera.lens


def unplaced(folder, matrices, channels=3):
    lens = {**LENS, "camera_model": "OPENCV"}
    return write_unplaced(folder, matrices, "images/{:03d}.png", channels, **lens)


def test_frames_are_sorted_by_name_and_keep_their_matrices(tmp_path):
    order = [3, 0, 2, 1]
    for index in order:
        save(tmp_path / f"{index}.png", pixels(index))
    frames = [{"file_path": f"{i}.png", "transform_matrix": matrix(i)} for i in order]
    path = write_json(tmp_path / "transforms.json", {**LENS, "aabb_scale": 1, "frames": frames})
    scene = load_scene(path, split=2)
    assert [frame.name for frame in scene.splits["test"]] == ["0.png", "2.png"]
    assert [frame.name for frame in scene.splits["train"]] == ["1.png", "3.png"]
    got = scene.splits["train"][1].camera.pose[:, :3]
    np.testing.assert_allclose(got, np.array(matrix(3))[:3, :3], atol=1e-6)


def test_the_lens_is_read_whole(tmp_path):
    bent = {"k1": 0.1, "k2": -0.2, "k3": 0.01, "k4": -0.02, "p1": 0.003, "p2": -0.004}
    lens = lens_of(write_transforms(tmp_path, 1, **bent))
    assert (lens.fl_x, lens.fl_y, lens.cx, lens.cy) == (30.0, 29.0, 11.0, 8.5)
    assert lens.distortion == tuple(bent.values())


def test_angles_stand_in_for_focal_lengths_and_the_image_for_its_size(tmp_path):
    path = write_transforms(tmp_path, 1)
    frames = [{"file_path": "images/000.png", "transform_matrix": matrix(0)}]
    write_json(path, {"camera_angle_x": 0.8, "camera_angle_y": 0.5, "frames": frames})
    lens = lens_of(path)
    assert WIDTH / 2 / lens.fl_x == pytest.approx(np.tan(0.4))
    assert HEIGHT / 2 / lens.fl_y == pytest.approx(np.tan(0.25))
    assert (lens.cx, lens.cy) == (WIDTH / 2, HEIGHT / 2)
    write_json(path, {"fl_y": 33.0, "frames": frames})
    assert lens_of(path).fl_x == 33.0, "square pixels where one length is given"


def test_a_frame_overrides_its_files_lens(tmp_path):
    own = {"camera_angle_x": 0.8, "cx": 12.5, "k1": 0.3}
    path = write_transforms(tmp_path, 2, frame={1: own}, k2=0.1)
    first, second = (lens_of(path, index) for index in (0, 1))
    assert (first.fl_x, first.cx, first.k1, first.k2) == (30.0, 11.0, 0.0, 0.1)
    assert second.fl_x == pytest.approx(WIDTH / 2 / np.tan(0.4))
    assert (second.fl_y, second.cx, second.k1, second.k2) == (29.0, 12.5, 0.3, 0.1)


@pytest.mark.parametrize("offset", [[0.1, 0.2, -0.3], 0.25])
def test_scale_and_offset_place_the_cameras(tmp_path, offset):
    path = write_transforms(tmp_path, 1, aabb_scale=16, scale=0.5, offset=offset)
    scene = load_scene(path)
    assert scene.extent == 16
    want = 0.5 * np.array(matrix(0))[:3, 3] + offset
    np.testing.assert_allclose(scene.splits["train"][0].camera.pose[:, 3], want, atol=1e-6)


@pytest.mark.parametrize("key", ["aabb_scale", "scale", "offset"])
def test_one_word_on_the_placement_brings_instant_ngps_defaults_for_the_rest(tmp_path, key):
    given = {"aabb_scale": 2.0, "scale": 0.4, "offset": 0.3}
    path = unplaced(tmp_path, [matrix(0)])
    frames = [{"file_path": "images/000.png", "transform_matrix": matrix(0)}]
    write_json(path, {**LENS, "frames": frames, key: given[key]})
    want = {"aabb_scale": 1.0, "scale": 0.33, "offset": 0.5} | {key: given[key]}
    scene = load_scene(path)
    assert scene.extent == want["aabb_scale"]
    position = want["scale"] * np.array(matrix(0))[:3, 3] + want["offset"]
    np.testing.assert_allclose(scene.splits["train"][0].camera.pose[:, 3], position, atol=1e-6)


@pytest.mark.parametrize(("channels", "extent"), [(3, 4.0), (4, 1.0)])
def test_an_unplaced_file_is_centered_on_what_its_cameras_look_at(tmp_path, channels, extent):
    far = [np.array(matrix(index)) for index in range(9)]  # they look at (0.1, 0.2, 0.3)
    for each in far:
        each[:3, 3] = 50 * each[:3, 3] + (1000, -2000, 300)
    scene = load_scene(unplaced(tmp_path, [each.tolist() for each in far], channels), split="none")
    poses = np.stack([frame.camera.pose for frame in scene.splits["train"]]).astype(np.float64)
    away = 0.5 - poses[:, :, 3]
    assert np.linalg.norm(away, axis=1).mean() == pytest.approx(1.0, abs=1e-4)
    ahead = np.sum(-poses[:, :, 2] * away, axis=1) / np.linalg.norm(away, axis=1)
    np.testing.assert_allclose(ahead, 1.0, atol=1e-5)
    assert scene.extent == extent


def test_small_errors_of_a_rotation_are_taken_out(tmp_path):
    rounded = np.round(np.array(matrix(1)), 3)
    path = write_transforms(tmp_path, 1, frame={0: {"transform_matrix": rounded.tolist()}})
    rotation = load_scene(path).splits["train"][0].camera.pose[:, :3].astype(np.float64)
    assert np.abs(rounded[:3, :3].T @ rounded[:3, :3] - np.eye(3)).max() > 1e-4
    np.testing.assert_allclose(rotation.T @ rotation, np.eye(3), atol=3e-7)
    np.testing.assert_allclose(rotation, rounded[:3, :3], atol=1e-3)


def test_cameras_that_look_outwards_have_a_cube_that_reaches_the_walls(tmp_path, caplog):
    poses = []
    for angle in np.linspace(0, 2 * np.pi, 9)[:-1]:
        place = np.array([0.3 * np.cos(angle), 0.35 * np.sin(angle), 0.02 * angle])
        lens = Lens.from_fov(1.0, WIDTH, HEIGHT)
        pose = Camera.look_at(place, 3 * place, (0, 0, 1), lens).pose
        poses.append([*pose.tolist(), [0.0, 0.0, 0.0, 1.0]])
    assert load_scene(unplaced(tmp_path, poses)).extent == 32.0
    assert len(caplog.messages) == 1
    assert "most cameras of" in caplog.text
