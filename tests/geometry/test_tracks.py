"""Tracks: pixels of training images that show a point, for every way of reading a scene."""

import json

import numpy as np
import pytest

from nerfmac import Camera, Lens, load_scene
from nerfmac.app.scenes.ply_points import write_ply_points
from nerfmac.geometry import Tracks, distances_of, tracks as tracks_module
from tests.app.scenes.colmap_files import ERRORS, OPENCV, POINTS, write_colmap
from tests.app.scenes.projection import project
from tests.app.scenes.scene_files import (
    HEIGHT,
    WIDTH,
    matrix,
    write_json,
    write_transforms,
)

COUNT = 10
LENS = Lens(WIDTH, HEIGHT, *OPENCV[:4], k1=0.08, k2=-0.03, p1=0.004, p2=-0.006)


def shown_at(index: int) -> list[tuple[float, float, int]]:
    """Where an image shows the points; some images miss some, and each shows unknown ones."""
    camera = Camera(LENS, np.array(matrix(index), np.float32)[:3])
    known = [(*map(float, project(camera, point)), number) for number, point in enumerate(POINTS)]
    known = [one for one in known if (one[2] + index) % 5]
    return [(3.0, 4.0, -1), *known[::-1], (5.0, 1.0, 77)]


SHOWN = {index: shown_at(index) for index in range(COUNT)}


def assert_right(tracks: Tracks, frames, indices) -> None:
    got = [
        (view, number)
        for view, number in zip(tracks.view.tolist(), tracks.point.tolist(), strict=True)
    ]
    want = [
        (view, number)
        for view, index in enumerate(indices)
        for _, _, number in SHOWN[index]
        if 0 <= number < len(POINTS)
    ]
    assert sorted(got) == sorted(want)
    for view, pixel, number in zip(tracks.view, tracks.pixel, tracks.point, strict=True):
        seen = project(frames[view].camera, tracks.points[number])
        np.testing.assert_allclose(pixel, seen, atol=1e-3)
    np.testing.assert_allclose(tracks.error, ERRORS)


@pytest.mark.parametrize("binary", [True, False], ids=["binary", "text"])
def test_training_images_keep_their_tracks_and_held_out_ones_have_none(tmp_path, binary):
    scene = load_scene(write_colmap(tmp_path, COUNT, shown=SHOWN, binary=binary), split=4)
    assert scene.tracks is not None
    assert_right(scene.tracks, scene.splits["train"], [1, 2, 3, 5, 6, 7, 9])
    assert scene.views("train", progress=False).tracks is scene.tracks
    assert scene.views("test", progress=False).tracks is None


def test_smaller_and_fewer_images_have_the_tracks_at_their_own_pixels(tmp_path):
    outside = {1: [*SHOWN[1], (WIDTH + 1.0, 3.0, 0), (3.0, -1.0, 1)]}
    folder = write_colmap(tmp_path, COUNT, shown=SHOWN | outside)
    scene = load_scene(folder, split="none", downscale=2, max_images=6)
    assert_right(scene.tracks, scene.splits["train"], [0, 1, 3, 5, 6, 8])


def turned(index: int) -> list[list[float]]:
    """The camera of `matrix` in coordinates that are turned, scaled and moved."""
    turn = np.array([[0.0, -0.6, 0.8], [1.0, 0.0, 0.0], [0.0, 0.8, 0.6]])
    pose = np.array(matrix(index))
    pose[:3, :3], pose[:3, 3] = turn @ pose[:3, :3], 0.4 * turn @ pose[:3, 3] + [1.0, 2.0, -3.0]
    return pose.tolist()


def beside(folder, pose_of):
    """Write a transforms.json with an OPENCV lens next to the COLMAP model of the same images."""
    write_colmap(folder, COUNT, shown=SHOWN)
    frame = {index: {"transform_matrix": pose_of(index)} for index in range(COUNT)}
    lens = dict(zip(("k1", "k2", "p1", "p2"), OPENCV[4:], strict=True))
    return write_transforms(folder, COUNT, frame=frame, **lens)


@pytest.mark.parametrize("with_tracks", [True, False])
def test_a_transforms_json_has_the_points_of_the_model_that_it_was_made_of(tmp_path, with_tracks):
    path = beside(tmp_path, turned)
    if not with_tracks:
        write_colmap(tmp_path, COUNT)
    scene = load_scene(path, split="none")
    turn = np.array([[0.0, -0.6, 0.8], [1.0, 0.0, 0.0], [0.0, 0.8, 0.6]])
    expected = scene.placement.to_scene(0.4 * POINTS @ turn.T + [1.0, 2.0, -3.0])
    np.testing.assert_allclose(scene.points, expected, atol=1e-6)
    assert (scene.tracks is not None) == with_tracks
    listed = np.array([[0.5, 0.25, 0.125]])
    write_ply_points(tmp_path / "own.ply", listed, np.full((1, 3), 9, np.uint8))
    values = json.loads(path.read_text())
    write_json(path, values | {"ply_file_path": "own.ply"})
    own = load_scene(path, split="none")
    np.testing.assert_allclose(own.points, own.placement.to_scene(listed), atol=1e-6)


@pytest.mark.parametrize("name", ["mouse_colmap", "phone_beer/sparse/0"])
def test_real_tracks_are_where_their_cameras_see_the_points(real_scenes, name):
    scene = load_scene(real_scenes / name, split=8, downscale=4)
    tracks, frames = scene.tracks, scene.splits["train"]
    assert len(tracks.view) > 15_000
    some = np.arange(0, len(tracks.view), 97)
    miss = [
        project(frames[tracks.view[index]].camera, tracks.points[tracks.point[index]])
        - tracks.pixel[index]
        for index in some
    ]
    assert np.median(np.linalg.norm(miss, axis=1)) < 0.25
    assert np.bincount(tracks.view, minlength=len(frames)).min() > 20


def many(points: int, views: int) -> Tracks:
    random = np.random.default_rng(3)
    view, point = np.nonzero(np.arange(views)[:, None] <= random.integers(0, views, points))
    positions = random.normal(size=(points, 3))
    return Tracks(view, np.zeros((len(view), 2)), point, positions, np.arange(points) / 7.0)


def test_of_too_many_observations_whole_points_are_left_out_evenly():
    tracks = many(5000, 6)
    kept = tracks.well_seen(3, most=2000)
    assert 1700 < len(kept.view) < 2100
    assert np.bincount(kept.point).min() >= 3
    number = np.rint(kept.error * 7.0).astype(int)
    np.testing.assert_array_equal(kept.points, tracks.points[number])
    np.testing.assert_array_equal(np.bincount(kept.point), np.bincount(tracks.point)[number])
    assert np.diff(number).max() < 100


def test_distances_are_those_from_cameras_to_points():
    tracks = many(20, 4)
    eyes = np.random.default_rng(4).normal(size=(4, 3)) * 5.0
    distance = distances_of(tracks, eyes)
    for number, (view, point) in enumerate(zip(tracks.view, tracks.point, strict=True)):
        assert distance[number] == pytest.approx(np.linalg.norm(tracks.points[point] - eyes[view]))


@pytest.fixture
def every_third(monkeypatch):
    monkeypatch.setattr(tracks_module, "HELD_OUT_EVERY", 3)


@pytest.mark.usefixtures("every_third")
def test_training_has_no_track_of_a_point_that_is_held_out(tmp_path):
    scene = load_scene(write_colmap(tmp_path, COUNT, shown=SHOWN), split=4, downscale=2)
    np.testing.assert_allclose(scene.tracks.error, [ERRORS[0], ERRORS[2]])
    for split, indices in (("train", [1, 2, 3, 5, 6, 7, 9]), ("test", [0, 4, 8])):
        held_out, frames = scene.held_out[split], scene.splits[split]
        np.testing.assert_allclose(held_out.error, ERRORS[1:2])  # of the largest x
        want = [
            view
            for view, index in enumerate(indices)
            if any(number == 1 for _, _, number in SHOWN[index])
        ]
        assert held_out.view.tolist() == want
        for view, pixel in zip(held_out.view, held_out.pixel, strict=True):
            seen = project(frames[view].camera, held_out.points[0])
            np.testing.assert_allclose(pixel, seen, atol=1e-3)


def test_of_a_real_scene_a_fifth_of_the_points_is_held_out(real_scenes):
    scene = load_scene(real_scenes / "mouse_colmap", split=8, downscale=4)
    held_out = scene.held_out["train"]
    trained, kept = (set(map(tuple, each.points)) for each in (scene.tracks, held_out))
    assert not trained & kept
    assert len(kept) == pytest.approx((len(kept) + len(trained)) / 5, rel=0.05)
    assert set(map(tuple, scene.held_out["test"].points)) <= kept
