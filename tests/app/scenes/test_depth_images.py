"""Depth images of every program that writes them lie on the surfaces that the photos show."""

import os

import numpy as np
import pytest

from nerfmac import InputError, Scene, load_scene
from nerfmac.app.inspection import training_findings
from nerfmac.app.scenes import depth_images
from nerfmac.app.scenes.depth_images import DepthImage
from nerfmac.app.scenes.readers import stray_scanner
from nerfmac.geometry.rays import camera_rays
from tests.app.scenes import depth_scenes
from tests.app.scenes.depth_scenes import HIGH, LENS, LOW, WRITERS, box_views, map_of, save

WITH_CONFIDENCE = {"record3d_archive", "polycam", "stray_scanner"}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("NERFMAC_CACHE", str(tmp_path / "cache"))


def distances_from_walls(scene: Scene, split: str) -> np.ndarray:
    """Distance in meters from the walls of the box of every measured point in the views."""
    views, found = scene.views(split), []
    for index in range(len(views.names)):
        distance, confidence = map_of(views.depth, index)
        camera = views.cameras[index]
        lens = camera.lens.scaled(*distance.shape[::-1])
        rays = camera_rays(type(camera)(lens, camera.pose))
        far = distance.ravel()[:, None]
        points = np.array(rays.origin) + far * np.array(rays.direction)
        found.append(scene.placement.to_file(points[confidence.ravel() > 0]))
    points = np.concatenate(found)
    return np.minimum(np.abs(points - LOW), np.abs(points - HIGH)).min(axis=1)


@pytest.mark.parametrize("program", WRITERS)
def test_measured_points_lie_on_the_walls(program, tmp_path):
    scene = load_scene(WRITERS[program](tmp_path / program, box_views(), LENS), split=4)
    for split, count in (("train", 6), ("test", 3)):
        maps = scene.views(split).depth
        assert maps.places.shape == (count, 3)
        # Millimeters are rounded by up to half a millimeter, and poses have seven digits.
        assert distances_from_walls(scene, split).max() < 1.5e-3
        confidence = np.stack([map_of(maps, index)[1] for index in range(count)])
        assert confidence.shape == (count, 12, 16)
        assert (confidence[:, :, -1] > 0).any() == (program not in WITH_CONFIDENCE)
        assert confidence[:, 5, 3:12].mean() > 0.7


def test_each_depth_image_is_decoded_once_until_its_file_changes(tmp_path, monkeypatch):
    path, decode = WRITERS["nerfstudio"](tmp_path, box_views(), LENS), depth_images._decoded
    files = []
    monkeypatch.setattr(depth_images, "_decoded", lambda *a: files.append(a[0]) or decode(*a))
    for times in (1, 2):
        scene = load_scene(path, split=4)
        training_findings(scene)
        assert [len(scene.views(split).names) for split in ("train", "test")] == [6, 3]
        assert (len(files), len({*files})) == (8 + times, 9)
        os.utime(files[0], ns=(times, times))


@pytest.mark.parametrize("program", WRITERS)
def test_photos_belong_to_the_poses(program, tmp_path):
    """The color of a photo is the position on the wall, so that poses of other axes are noticed."""
    scene = load_scene(WRITERS[program](tmp_path / program, box_views(), LENS), split="none")
    frames = sorted(scene.splits["train"], key=lambda frame: frame.name)
    assert len(frames) == 9
    for frame in frames:
        pose = np.array(frame.camera.pose, np.float64)
        turned = scene.placement.rotation.T @ pose[:, :3]
        eye = scene.placement.to_file(pose[:, 3])
        points, _ = depth_scenes.box_points(np.column_stack([turned, eye]), LENS)
        want = np.clip(40 + 50 * (points - LOW), 0, 255)
        pixels, _ = frame.decode(3)
        assert np.abs(pixels - want).mean() < 4  # Video frames are compressed.


@pytest.mark.parametrize("program", ["record3d", "polycam", "stray_scanner"])
def test_depth_beyond_the_range_of_the_sensor_is_unknown(program, tmp_path):
    views = [view._replace(depth=view.depth + 3.5) for view in box_views()]
    scene = load_scene(WRITERS[program](tmp_path, views, LENS), split="none")
    index = next(i for i, view in enumerate(views) if (view.depth > 5.1).any())
    distance, confidence = scene.splits["train"][index].decode_depth()
    far = views[index].depth > 5.01
    assert not distance[far].any()
    assert not confidence[far].any()
    assert distance[views[index].depth < 4.99].all()


def test_nerfstudios_unit_and_instant_ngps_switch_are_those_of_the_file(tmp_path):
    views = box_views()
    other = depth_scenes.nerfstudio(tmp_path / "a", views, LENS, depth_unit_scale_factor=0.002)
    scene = load_scene(other, split="none")
    distance, _ = scene.splits["train"][0].decode_depth()
    want = 2 * scene.placement.scale * views[0].depth
    np.testing.assert_allclose(distance, want, rtol=2e-3)
    for change in ({"enable_depth_loading": False}, {"integer_depth_scale": 0}):
        off = load_scene(depth_scenes.instant_ngp(tmp_path / "b", views, LENS, **change))
        assert off.views("train").depth is None


def test_views_without_a_depth_image_have_an_unknown_depth(tmp_path):
    folder = depth_scenes.record3d(tmp_path, box_views(), LENS)
    (folder / "depth" / "3.exr").unlink()
    maps = load_scene(folder, split="none").views("train").depth
    distance, confidence = map_of(maps, 3)
    assert (distance.tolist(), confidence.tolist()) == ([[0.0]], [[0.0]])
    assert map_of(maps, 4)[1].any()


def test_a_downscaled_scene_has_the_same_depth(tmp_path):
    folder = depth_scenes.polycam(tmp_path, box_views(), LENS)
    whole, half = (load_scene(folder, downscale=factor).views("train") for factor in (1, 2))
    assert half.cameras.sizes[0] == (16, 12)
    for one, other in zip(map_of(whole.depth, 1), map_of(half.depth, 1), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.ones((12, 16), np.uint8), "only 8 bits"),
        (np.ones((16, 12), np.uint16), "axes are swapped"),
        (np.ones((12, 30), np.uint16), "the same area"),
        (np.ones((12, 16, 3), np.uint8), "one number per pixel"),
    ],
)
def test_an_image_that_is_no_depth_image_is_refused(values, message, tmp_path):
    save(tmp_path / "a.png", values)
    with pytest.raises(InputError, match=message):
        DepthImage(tmp_path / "a.png").along_axis(LENS)


def test_files_outside_the_archives_image_folder_are_not_unpacked(tmp_path):
    path = depth_scenes.record3d_archive(tmp_path, box_views(), LENS)
    with depth_scenes.ZipFile(path, "a") as archive:
        archive.writestr("../outside.jpg", b"")
        archive.writestr("rgbd/deeper/1.jpg", b"")
    load_scene(path)
    unpacked = [file.name for file in (tmp_path / "cache").rglob("*") if file.is_file()]
    assert len(unpacked) == 1 + 3 * 9


def test_few_frames_of_a_long_video_are_read_with_their_own_poses(tmp_path, monkeypatch):
    monkeypatch.setattr(stray_scanner, "MAX_FRAMES", 4)
    views = box_views()
    scene = load_scene(depth_scenes.stray_scanner(tmp_path, views, LENS), split="none")
    frames = scene.splits["train"]
    assert [frame.name for frame in frames] == ["000000.jpg", "000003.jpg", "000006.jpg"]
    for frame, view in zip(frames, views[::3], strict=True):
        np.testing.assert_allclose(
            scene.placement.to_file(frame.camera.pose[:, 3]), view.pose[:, 3], atol=1e-5
        )
        assert np.abs(frame.decode(3)[0] - view.photo.astype(float)).mean() < 4
