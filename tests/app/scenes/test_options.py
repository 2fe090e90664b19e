"""Options of `load_scene`: downscale, max_images, split, extent, and up."""

import logging

import numpy as np
import pytest

from nerfmac import InputError, load_scene
from tests.app.scenes.colmap_files import write_colmap
from tests.app.scenes.projection import project
from tests.app.scenes.scene_files import (
    HEIGHT,
    WIDTH,
    pixels,
    save,
    write_blender,
    write_transforms,
)

POINT = np.array([0.52, 0.47, 0.61])


def test_smaller_images_are_means_of_blocks_and_see_the_same(tmp_path):
    path = write_transforms(tmp_path, 3, k1=0.1)
    whole, small = (load_scene(path, split="none", downscale=factor) for factor in (1, 3))
    views = small.views("train")
    assert views.cameras.sizes == ((8, 5),) * 3, "of 24x16 pixels the last row is left out"
    blocks = pixels(1)[:15].reshape(5, 3, 8, 3, 3).mean(axis=(1, 3))
    assert np.abs(np.array(views.image(1)) - blocks).max() <= 0.51
    for one, other in zip(whole.splits["train"], small.splits["train"], strict=True):
        got = 3 * project(other.camera, POINT)
        np.testing.assert_allclose(got, project(one.camera, POINT), atol=1e-6)


def test_hidden_colors_do_not_bleed_into_smaller_images(tmp_path):
    path = write_transforms(tmp_path, 2)
    image = np.zeros((HEIGHT, WIDTH, 4), np.uint8)
    image[:, ::2] = 200, 100, 50, 255
    image[:, 1::2] = 7, 8, 9, 0
    save(tmp_path / "images/001.png", image)
    small = np.array(load_scene(path, split="none", downscale=2).views("train").image(1))
    assert np.abs(small[..., :3].astype(int) - [200, 100, 50]).max() <= 1
    assert np.abs(small[..., 3].astype(int) - 128).max() <= 1


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"downscale": 0}, "downscale is 0; expected at least 1"),
        ({"downscale": 17}, r"downscale is 17, but images/000\.png has only 24x16 pixels"),
        ({"max_images": 0}, "max_images is 0; expected at least 1"),
        ({"split": 0}, "split is 0; expected a number N for every Nth view, a fraction"),
        ({"split": 0.99}, "split=0.99 holds out all 3 views of .*, or use none"),
        ({"split": []}, "split is an empty list of views"),
        ({"split": ["b.png"]}, r"split contains 'b\.png', which is not .* such as 'images/000"),
        ({"split": ["000", "001", "002"]}, "the list of names in split holds out all 3 views"),
        ({"extent": 0}, "extent is 0; expected a value above 0"),
        ({"up": "w"}, "up is 'w'; expected x, y, z, one of these with a minus sign, three numbers"),
        ({"up": "0,0,0"}, "up is '0,0,0'; expected x, y, z"),
        ({"up": (0, 1, float("nan"))}, "up is .*nan.*; expected x, y, z"),
    ],
)
def test_impossible_options_are_refused(tmp_path, options, complaint):
    with pytest.raises(InputError, match=complaint):
        load_scene(write_transforms(tmp_path, 3), **options)


def held_out(scene):
    return "".join(frame.name[-5] for frame in scene.splits.get("test", ()))


@pytest.mark.parametrize(
    ("split", "test"),
    [
        (None, "08"),
        (3, "0369"),
        ("4", "048"),
        (0.3, "036"),
        ("0.2", "05"),
        (0.01, "0"),
        ("none", ""),
        (["images/007.png", "002.png", "4"], "247"),
    ],
)
def test_what_is_held_out_is_as_asked_and_the_rest_is_trained_on(tmp_path, split, test):
    names = [name.replace("4", "004") for name in split] if isinstance(split, list) else split
    scene = load_scene(write_transforms(tmp_path, 10), split=names)
    assert held_out(scene) == test
    trained = "".join(frame.name[-5] for frame in scene.splits["train"])
    assert sorted(trained + test) == list("0123456789")
    assert ("test" in scene.splits) == bool(test)


@pytest.mark.parametrize(
    ("count", "split", "test"),
    [(1, None, ""), (7, None, ""), (8, None, "0"), (7, 8, "0"), (2, 2, "0")],
)
def test_few_views_are_all_trained_on_unless_a_split_is_asked_for(tmp_path, count, split, test):
    scene = load_scene(write_transforms(tmp_path, count), split=split)
    assert held_out(scene) == test
    assert len(scene.splits["train"]) == count - len(test)


def test_a_file_lists_what_is_held_out(tmp_path):
    listed = tmp_path / "test views.txt"
    listed.write_text("\ufeff# those from above\nimages/003.png\n\n  005.png \r\n005.png\n")
    path = write_transforms(tmp_path, 7)
    assert held_out(load_scene(path, split=listed)) == "35"
    listed.write_text("# none\n\n")
    with pytest.raises(InputError, match=r"test views\.txt contains no view names; expected one"):
        load_scene(path, split=str(listed))
    listed.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match=r"cannot read .*test views\.txt as a list of view names"):
        load_scene(path, split=str(listed))


@pytest.mark.parametrize("write", [write_transforms, write_colmap])
def test_the_extent_that_is_asked_for_is_the_cubes_and_moves_nothing(tmp_path, write, caplog):
    caplog.set_level(logging.INFO, "nerfmac")
    path = write(tmp_path)
    usual, asked = load_scene(path), load_scene(path, extent=6.5)
    assert (asked.extent, asked.placement.extent) == (6.5, 6.5)
    assert f"has side 6.5 instead of {usual.extent:g}" in caplog.text
    for one, other in zip(usual.splits["train"], asked.splits["train"], strict=True):
        np.testing.assert_array_equal(one.camera.pose, other.camera.pose)


@pytest.mark.parametrize(
    ("up", "axis"),
    [
        ("x", (1, 0, 0)),
        ("-y", (0, -1, 0)),
        ("-0.6,0,0.8", (-0.6, 0, 0.8)),
        ((0, 3, -4), (0, 0.6, -0.8)),
    ],
)
def test_the_up_that_is_asked_for_goes_before_the_files(tmp_path, up, axis):
    path = write_transforms(tmp_path, 3, up=[0.0, 1.0, 0.0])
    np.testing.assert_allclose(load_scene(path, up=up).up, axis, atol=1e-12)
    assert load_scene(path).up == load_scene(path, up="auto").up == (0.0, 1.0, 0.0)
    blender = write_blender(tmp_path / "blender", train=2)
    np.testing.assert_allclose(load_scene(blender, up=up).up, axis, atol=1e-12)


def image(index: int) -> str:
    return f"images/{index:03d}.png"


def images(*indices: int) -> list[str]:
    return [image(index) for index in indices]


def names(scene) -> dict[str, list[str]]:
    return {split: [frame.name for frame in frames] for split, frames in scene.splits.items()}


def test_an_explicit_hold_out_goes_before_the_listed_test_views(tmp_path):
    lists = {"train_filenames": images(1, 2, 3, 4), "test_filenames": images(5)}
    path = write_transforms(tmp_path, 6, **lists, val_filenames=images(0))
    got = names(load_scene(path, split=2))
    assert got == {"train": images(2, 4), "val": images(0), "test": images(1, 3)}
    assert names(load_scene(path, split="none"))["train"] == images(1, 2, 3, 4)
    assert "test" not in load_scene(path, split="none").splits
