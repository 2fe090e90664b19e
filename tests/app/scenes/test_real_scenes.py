"""The built-in scene, and published captures where there are any on this machine."""

import numpy as np
import pytest

from nerfmac.app.scenes import builtin_scene_path, load_scene


def folder(real_scenes, name):
    path = real_scenes / name
    if not path.is_dir():
        pytest.skip(f"no {name} in {real_scenes}")
    return path


def test_the_built_in_scene_is_there_with_views_to_train_on_and_to_test():
    scene = load_scene(builtin_scene_path())
    views = scene.views("test")
    assert len(scene.splits["train"]) > len(views.names) > 0
    assert views.pixels.shape[1] == (4 if scene.has_alpha else 3)
    assert np.array(views.pixels).std() > 10, "nothing to see"


def test_the_fox_loads_without_the_images_it_lacks(real_scenes, caplog):
    scene = load_scene(folder(real_scenes, "fox_540"))
    assert len(caplog.messages) == 1
    assert "17 of 67 images" in caplog.text
    assert "using the other 50" in caplog.text
    assert [len(scene.splits[split]) for split in ("train", "test")] == [43, 7]
    assert (scene.extent, scene.has_alpha) == (4.0, False)
    views = scene.views("test")
    assert views.pixels.shape == (7 * 960 * 540, 3)
    assert views.cameras.is_distorted
    assert views.names[:2] == ("images/0001.jpg", "images/0012.jpg")
    np.testing.assert_allclose(
        views.cameras[0].pose[:, 3],
        0.33 * np.array([3.168359405609479, -5.4794898611466945, -0.9791660699008925]) + 0.5,
        atol=1e-6,
    )


def test_lego_loads_with_its_own_splits_and_alpha(real_scenes):
    scene = load_scene(folder(real_scenes, "lego_400"))
    assert (len(scene.splits["train"]), len(scene.splits["test"])) == (100, 20)
    assert (scene.extent, scene.has_alpha) == (1.0, True)
    views = scene.views("test")
    assert views.pixels.shape == (20 * 400 * 400, 4)
    assert not views.cameras.is_distorted
    assert views.cameras[3].lens.fl_x == pytest.approx(400 / 2 / np.tan(0.6911112070083618 / 2))
    cover = np.array(views.pixels[:, 3]).mean() / 255
    assert 0.1 < cover < 0.5


def test_a_phones_capture_has_the_same_cameras_as_colmap_and_as_llff(real_scenes, caplog):
    path = folder(real_scenes, "phone_beer")
    colmap, llff = load_scene(path), load_scene(path / "poses_bounds.npy")
    assert [len(colmap.splits[split]) for split in ("train", "test")] == [62, 9]
    for split, frames in colmap.splits.items():
        for one, other in zip(frames, llff.splits[split], strict=True):
            assert one.name == other.name
            np.testing.assert_allclose(one.camera.pose, other.camera.pose, atol=1e-5)
    first = colmap.splits["test"][0].camera.lens
    assert first.fl_x == pytest.approx(llff.splits["test"][0].camera.lens.fl_x, abs=1e-3)
    assert first.k1 == pytest.approx(0.0578036)
    assert caplog.messages == []


def test_images_lying_and_standing_are_one_scene(real_scenes, caplog):
    scene = load_scene(folder(real_scenes, "mouse_colmap"), downscale=8, max_images=6)
    assert len(caplog.messages) == 1
    assert "3 of 59 images have no camera" in caplog.text
    views = scene.views("train")
    assert {*views.cameras.sizes} == {(240, 180), (180, 240)}
    assert views.pixels.shape == (6 * 240 * 180, 3)
    assert np.array(views.pixels).std() > 10, "nothing to see"
