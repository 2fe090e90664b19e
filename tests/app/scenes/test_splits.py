"""The splits that nerfstudio's lists of file names make, and what in them is refused."""

import pytest

from nerfmac.app.scenes import load_scene
from nerfmac.common.checks import InputError
from tests.app.scenes.scene_files import write_transforms


def image(index: int) -> str:
    return f"images/{index:03d}.png"


def images(*indices: int) -> list[str]:
    return [image(index) for index in indices]


def names(scene) -> dict[str, list[str]]:
    return {split: [frame.name for frame in frames] for split, frames in scene.splits.items()}


def test_listed_splits_are_kept_in_the_order_of_names(tmp_path):
    lists = {
        "train_filenames": images(7, 1, 4),
        "val_filenames": images(0),
        "test_filenames": images(5, 3),
    }
    scene = load_scene(write_transforms(tmp_path, 10, **lists))
    assert names(scene) == {
        "train": images(1, 4, 7),
        "val": images(0),
        "test": images(3, 5),
    }


def test_an_explicit_hold_out_goes_before_the_listed_test_views(tmp_path):
    lists = {"train_filenames": images(1, 2, 3, 4), "test_filenames": images(5)}
    path = write_transforms(tmp_path, 6, **lists, val_filenames=images(0))
    got = names(load_scene(path, split=2))
    assert got == {"train": images(2, 4), "val": images(0), "test": images(1, 3)}
    assert names(load_scene(path, split="none"))["train"] == images(1, 2, 3, 4)
    assert "test" not in load_scene(path, split="none").splits


def test_a_listed_image_that_is_absent_is_left_out_with_the_other_absent_ones(tmp_path, caplog):
    lists = {"train_filenames": images(0, 1, 2), "test_filenames": images(3, 4)}
    scene = load_scene(write_transforms(tmp_path, 5, absent=(1, 4), **lists))
    assert names(scene) == {"train": images(0, 2), "test": images(3)}
    assert len(caplog.messages) == 1


@pytest.mark.parametrize(
    ("lists", "complaint"),
    [
        (
            {"test_filenames": images(1)},
            "no training views remain, because train_filenames is miss",
        ),
        ({"train_filenames": images(2)}, "no training views remain"),  # it is absent
        (
            {"train_filenames": images(0), "val_filenames": ["000.png"]},
            "val_filenames contains '000.png', but no frame has this file_path",
        ),
        ({"train_filenames": "all"}, 'train_filenames is "all"; expected a list of texts'),
    ],
)
def test_lists_that_make_no_sense_are_refused(tmp_path, lists, complaint):
    path = write_transforms(tmp_path, 3, absent=(2,), **lists)
    with pytest.raises(InputError, match=rf"transforms\.json: {complaint}"):
        load_scene(path)
