"""Names in scene files that are spelled unlike the files, or that lead out of the scene folder."""

import json
import unicodedata

import numpy as np
import pytest

from nerfmac import load_scene
from nerfmac.app.scenes.ply_points import write_ply_points
from tests.app.scenes.colmap_files import POINTS
from tests.app.scenes.scene_files import pixels, save, write_json, write_transforms


def nfd(text):
    return unicodedata.normalize("NFD", text)


def nfc(text):
    return unicodedata.normalize("NFC", text)


def write_named(folder, names, files, **top):
    """A transforms.json with `names`, and image files called `files`."""
    path = write_transforms(folder, len(names), absent=range(len(names)), **top)
    values = json.loads(path.read_text())
    for index, (name, file) in enumerate(zip(names, files, strict=True)):
        values["frames"][index]["file_path"] = name
        save(folder / file, pixels(index))
    return write_json(path, values)


SALA = [f"salón/vídeo_{index}.png" for index in range(9)]


@pytest.mark.parametrize(("given", "there"), [(nfc, nfd), (nfd, nfc)])
def test_names_are_found_in_another_normalization(tmp_path, given, there):
    listed = {"train_filenames": [given(name) for name in SALA[:6]]}
    listed |= {"test_filenames": [there(name) for name in SALA[6:]]}
    names, files = map(given, SALA), [there(name) for name in SALA]
    scene = load_scene(write_named(tmp_path, [*names], files, **listed))
    assert (len(scene.splits["train"]), len(scene.splits["test"])) == (6, 3)
    split = load_scene(tmp_path, split=[there(SALA[2])])
    assert [frame.name for frame in split.splits["test"]] == [given(SALA[2])]


def test_masks_points_and_scenes_are_found_in_another_normalization(tmp_path):
    folder = tmp_path / nfd("Küche")
    path = write_named(folder, ["ä.png", "b.png", "ö.png"], [nfd("ä.png"), "b.png", nfd("ö.png")])
    save(folder / "masks" / nfc("ö.png"), pixels(1)[..., 0])
    save(folder / nfd("menschen/ä.png"), pixels(1)[..., 0])
    write_ply_points(folder / nfd("pünkte.ply"), POINTS, np.full((3, 3), 9, np.uint8))
    values = json.loads(path.read_text())
    values["frames"][0]["mask_path"] = nfc("menschen/ä.png")
    write_json(path, values | {"ply_file_path": nfc("pünkte.ply")})
    scene = load_scene(str(tmp_path / nfc("Küche")))
    masks = {frame.name: frame.mask and frame.mask.name for frame in scene.splits["train"]}
    assert masks == {"ä.png": nfd("ä.png"), "b.png": None, "ö.png": nfc("ö.png")}
    assert len(scene.points) == 3


def test_names_in_another_case_are_found_where_they_are_unique(tmp_path, caplog):
    names = ["images/IMG_1.png", "images/IMG_2.png", "Images/img_3.PNG"]
    files = ["images/img_1.png", "Images/IMG_2.PNG", "images/img_3.png"]
    scene = load_scene(write_named(tmp_path, names, files))
    assert {frame.image.name for frame in scene.splits["train"]} == {
        *("img_1.png", "IMG_2.PNG", "img_3.png")
    }
    is_apfs = (tmp_path / "IMAGES").exists()
    assert ("were found by file name" in caplog.text) == (not is_apfs)
    assert "skipped" not in caplog.text


def test_images_behind_a_link_out_of_the_scene_are_read_with_a_message(tmp_path, caplog):
    path = write_transforms(tmp_path / "scene", 3)
    (tmp_path / "scene/images").rename(tmp_path / "elsewhere")
    (tmp_path / "scene/images").symlink_to(tmp_path / "elsewhere")
    assert len(load_scene(path, split="none").views("train").names) == 3
    assert "3 of 3 images and masks of scene are outside its folder" in caplog.text
