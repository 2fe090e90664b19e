"""Recorded source files of a capture, their copies, and their masks."""

import os
import shutil

import numpy as np
import pytest
from PIL import Image
from tqdm import tqdm

from nerfmac import InputError, inspect_scene, load_scene
from nerfmac.app.capture import capture_scene, captured, colmap_process
from nerfmac.app.capture.inputs import take_images
from tests.app.capture.test_capture import NAMES, photos, solved, somewhere
from tests.app.cli.refusals import refused

__all__ = ["photos", "solved", "somewhere"]

HOLES = np.full((48, 64), 255, np.uint8)
HOLES[:20, :30] = 0


def test_a_source_that_is_copied_or_touched_has_not_changed(photos, solved):
    capture_scene(photos, "scene", progress=False)
    content = (photos / NAMES[0]).read_bytes()
    (photos / NAMES[0]).unlink()
    (photos / NAMES[0]).write_bytes(content)
    os.utime(photos / NAMES[1], (1, 1))
    capture_scene(photos, "scene", progress=False)
    assert len(solved["calls"]) == 1


def change(photos, how):
    noise = Image.fromarray(np.random.default_rng(7).integers(0, 255, (48, 64, 3), np.uint8))
    if how == "added":
        noise.save(photos / "new.png")
    elif how == "removed":
        (photos / NAMES[3]).unlink()
    else:
        noise.save(photos / NAMES[3])


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("added", "1 added (new.png)"),
        ("removed", f"1 removed ({NAMES[3]})"),
        ("changed", f"1 changed ({NAMES[3]})"),
    ],
)
def test_a_capture_of_photos_that_have_changed_is_not_reused(
    photos, tmp_path, solved, capsys, how, told
):
    capture_scene(photos, "captures/garden", progress=False)
    change(photos, how)
    again = "remove captures/garden or choose another folder with --out"
    expected = [f"captures/garden contains a capture of {photos}", told, again]
    refused(capsys, tmp_path, "capture", photos, names=expected)
    with pytest.raises(InputError, match="which has changed since: 1"):
        inspect_scene(photos, progress=False)
    refused(*(capsys, tmp_path, "train", photos, "--device", "cpu", "--out", "run"), names=expected)
    shutil.rmtree("captures/garden")
    solved["cameras"] = 12 + (how == "added") - (how == "removed")
    assert len(load_scene(captured(photos), split="none").cameras("train")) == solved["cameras"]


@pytest.mark.parametrize("form", ["masks/{0}.png", "dynamic_mask_{1}.png", "{1}_mask.png"])
def test_masks_of_photos_become_the_scene_s(photos, solved, form, caplog):
    caplog.set_level("INFO", "nerfmac")
    (photos / "masks").mkdir()
    values = 255 - HOLES if "dynamic" in form else HOLES
    for name in NAMES[:5]:
        path = photos / form.format(name, name.removesuffix(".png"))
        Image.fromarray(values).save(path)
    folder = capture_scene(photos, "scene", progress=False)
    assert solved["calls"] == [(12, "auto")], "masks are no photos"
    assert "5 of 12 images have a mask" in caplog.text
    scene = load_scene(folder, split="none")
    masks = {path.name for path in (folder / "masks").iterdir()}
    assert masks == {f"{name}.png" for name in NAMES}, "COLMAP wants one for each image"
    views = scene.views("train")
    for index in range(12):
        expected = HOLES > 0 if index < 5 else HOLES >= 0
        np.testing.assert_array_equal(np.array(views.kept_of(index)), expected)


@pytest.mark.parametrize("size", [(128, 96), (64, 48)])
def test_a_mask_is_turned_and_reduced_with_its_photo(photos, size):
    exif = Image.Exif()
    exif[0x0112] = 6
    with Image.open(photos / NAMES[0]) as image:
        image.resize((128, 96)).save(photos / NAMES[0], exif=exif)
    mask, images = photos / "mask.png", photos / "images"
    Image.fromarray(HOLES).resize(size, Image.Resampling.NEAREST).save(mask)
    images.mkdir()
    with tqdm(disable=True) as bar:
        photo = photos / NAMES[0]
        take_images([photo], images, 64, bar, {photo: mask})
    at = images / "00.jpg", photos / "masks/00.jpg.png"
    with Image.open(at[0]) as image, Image.open(at[1]) as mask:
        assert image.size == mask.size == (48, 64)
        np.testing.assert_array_equal(np.asarray(mask) > 0, np.rot90(HOLES, -1) > 0)


def test_colmap_finds_no_features_where_a_mask_is_black(tmp_path, photos):
    pycolmap = pytest.importorskip("pycolmap", reason="needs pycolmap, of the extra capture")
    (tmp_path / "masks").mkdir()
    for name, mask in zip(NAMES, (HOLES, np.full_like(HOLES, 255)), strict=False):
        Image.fromarray(mask).save(tmp_path / f"masks/{name}.png")
    lens = {"images": NAMES[:2], "parameters": []}
    plan = {"images": str(photos), "masks": str(tmp_path / "masks"), "lenses": [lens]}
    plan |= {"names": NAMES[:2], "focal_guess": 0.85}
    names = colmap_process.Names(plan, tmp_path / "numbered")
    colmap_process.find_features(pycolmap, tmp_path, plan, names)
    with pycolmap.Database.open(tmp_path / "database.db") as opened:
        found = [
            np.array(opened.read_keypoints(opened.read_image_with_name(name).image_id))[:, :2]
            for name in names.numbered(NAMES[:2])
        ]
    for number, points in enumerate(found):
        is_masked = (points[:, 0] < 29) & (points[:, 1] < 19)
        assert is_masked.any() == (number == 1)
        assert len(points)
