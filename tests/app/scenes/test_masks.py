"""Masks: found where they are, and as fine as the images that they belong to."""

import json

import numpy as np
import pytest

from nerfmac import InputError, inspect_scene, load_scene
from tests.app.scenes.scene_files import HEIGHT, WIDTH, save, write_transforms


def mask(seed):
    return np.random.default_rng(seed).choice(np.array([0, 255], np.uint8), (HEIGHT, WIDTH))


def kept(scene, index, split="train"):
    found = scene.views(split).kept_of(index)
    return None if found is None else np.array(found)


@pytest.mark.parametrize("name", ["masks/001.png", "images/masks/001.png", "masks/001.png.png"])
def test_a_mask_is_found_by_its_images_name(tmp_path, name, caplog):
    caplog.set_level("INFO", "nerfmac")
    path = write_transforms(tmp_path, 3)
    save(tmp_path / name, mask(1))
    scene = load_scene(path, split="none")
    assert kept(scene, 0).all()
    np.testing.assert_array_equal(kept(scene, 1), mask(1) > 0)
    assert caplog.messages == [
        f"1 of 3 images have a mask, such as {tmp_path / name}; black pixels are excluded"
    ]
    assert kept(load_scene(path, split="none", masks=False), 1) is None


def test_the_mask_that_a_frame_names_goes_first(tmp_path):
    path = write_transforms(tmp_path, 2, frame={1: {"mask_path": "people\\second.png"}})
    save(tmp_path / "masks/001.png", mask(1))
    save(tmp_path / "people/second.png", mask(2))
    np.testing.assert_array_equal(kept(load_scene(path, split="none"), 1), mask(2) > 0)


def test_a_block_with_a_masked_pixel_is_left_out(tmp_path):
    path = write_transforms(tmp_path, 2)
    holes = np.full((HEIGHT, WIDTH), 255, np.uint8)
    holes[5, 7] = 0
    save(tmp_path / "masks/000.png", holes)
    found = kept(load_scene(path, split="none", downscale=2), 0)
    assert np.argwhere(~found).tolist() == [[2, 3]]


@pytest.mark.parametrize("size", [(12, 8), (48, 32), (25, 17), (23, 16)])
@pytest.mark.parametrize("downscale", [1, 2])
def test_a_mask_of_another_size_is_scaled_to_its_image(tmp_path, size, downscale):
    path = write_transforms(tmp_path, 2)
    left = np.full((size[1], size[0]), 255, np.uint8)
    left[:, : size[0] // 3] = 0
    save(tmp_path / "masks/001.png", left)
    found = kept(load_scene(path, split="none", downscale=downscale), 1)
    assert found.shape == (HEIGHT // downscale, WIDTH // downscale)
    assert abs(int((~found[0]).sum()) - WIDTH // downscale // 3) <= 1
    np.testing.assert_array_equal(found, np.tile(np.sort(found[0]), (HEIGHT // downscale, 1)))


def test_masks_that_exclude_everything_are_refused_or_reported(tmp_path):
    path = write_transforms(tmp_path, 3)
    for index in range(3):
        save(tmp_path / f"masks/{index:03d}.png", np.zeros((HEIGHT, WIDTH), np.uint8))
    scene = load_scene(path, split="none")
    with pytest.raises(InputError, match="the masks exclude all pixels of all 3 images, such as"):
        scene.views("train")
    reported = [line for line in inspect_scene(scene, progress=False).findings if "mask" in line]
    assert len(reported) == 3
    assert "images/001.png is excluded by its mask" in reported
    save(tmp_path / "masks/002.png", mask(1))
    scene = load_scene(path, split="none")
    assert np.array(scene.views("train").kept).any()
    reported = [line for line in inspect_scene(scene, progress=False).findings if "mask" in line]
    assert len(reported) == 2


def rename(path, names):
    values = json.loads(path.read_text())
    for frame, name in zip(values["frames"], names, strict=True):
        (path.parent / name).parent.mkdir(parents=True, exist_ok=True)
        (path.parent / frame["file_path"]).rename(path.parent / name)
        frame["file_path"] = name
    path.write_text(json.dumps(values))


SUBFOLDERS = ("images/front/0.png", "images/back/0.png", "images/back/1.png")


@pytest.mark.parametrize("form", ["masks/{}/{}.png", "mask/images/{}/{}", "images/masks/{}/{}.png"])
@pytest.mark.parametrize("relative", [False, True])
def test_masks_in_subfolders_are_those_of_the_same_subfolders(
    tmp_path, monkeypatch, caplog, form, relative
):
    path = write_transforms(tmp_path / "scene", 3)
    rename(path, SUBFOLDERS)
    for index, name in enumerate(SUBFOLDERS[:2]):
        save(path.parent / form.format(*name.split("/")[1:]), mask(index))
    monkeypatch.chdir(tmp_path)
    scene = load_scene("scene" if relative else path, split="none")
    by_name = dict(zip(scene.views("train").names, range(3), strict=True))
    for index, name in enumerate(SUBFOLDERS[:2]):
        np.testing.assert_array_equal(kept(scene, by_name[name]), mask(index) > 0)
    assert kept(scene, by_name[SUBFOLDERS[2]]).all()
    assert caplog.messages == [], "no mask is unused"


def test_pixels_that_instant_ngp_s_masks_mark_are_ignored(tmp_path, caplog):
    caplog.set_level("INFO", "nerfmac")
    path = write_transforms(tmp_path, 3)
    marks = np.zeros((HEIGHT, WIDTH), np.uint8)
    marks[3:7, 4:9] = 1
    save(tmp_path / "images/dynamic_mask_001.png", marks)
    scene = load_scene(path, split="none")
    np.testing.assert_array_equal(kept(scene, 1), marks == 0)
    assert kept(scene, 0).all()
    assert "1 of 3 images have a mask" in caplog.text
    assert "non-black pixels are excluded" in caplog.text
