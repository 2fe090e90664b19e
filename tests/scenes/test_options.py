"""Options of reading: smaller pictures, and fewer of them."""

import numpy as np
import pytest

from nerfmac.checks import InputError
from nerfmac.scenes import load_scene
from tests.scenes.projection import project
from tests.scenes.scene_files import HEIGHT, WIDTH, pixels, save, write_transforms

POINT = np.array([0.52, 0.47, 0.61])


def test_smaller_pictures_are_means_of_blocks_and_see_the_same(tmp_path):
    path = write_transforms(tmp_path, 3, k1=0.1)
    whole, small = (load_scene(path, test_every=0, downscale=factor) for factor in (1, 3))
    views = small.views("train")
    assert views.cameras.sizes == ((8, 5),) * 3, "of 24x16 pixels the last row is left out"
    blocks = pixels(1)[:15].reshape(5, 3, 8, 3, 3).mean(axis=(1, 3))
    assert np.abs(np.array(views.image(1)) - blocks).max() <= 0.51
    for one, other in zip(whole.splits["train"], small.splits["train"], strict=True):
        got = 3 * project(other.camera, POINT)
        np.testing.assert_allclose(got, project(one.camera, POINT), atol=1e-6)


def test_hidden_colours_do_not_bleed_into_smaller_pictures(tmp_path):
    path = write_transforms(tmp_path, 2)
    picture = np.zeros((HEIGHT, WIDTH, 4), np.uint8)
    picture[:, ::2] = 200, 100, 50, 255
    picture[:, 1::2] = 7, 8, 9, 0
    save(tmp_path / "images/001.png", picture)
    small = np.array(load_scene(path, test_every=0, downscale=2).views("train").image(1))
    assert np.abs(small[..., :3].astype(int) - [200, 100, 50]).max() <= 1
    assert np.abs(small[..., 3].astype(int) - 128).max() <= 1


@pytest.mark.parametrize(
    ("most", "kept"), [(3, "036"), (1, "0"), (9, "012345678"), (40, "012345678")]
)
def test_fewer_views_are_spread_over_all(tmp_path, most, kept):
    scene = load_scene(write_transforms(tmp_path, 9), test_every=0, max_images=most)
    assert [frame.name[-5] for frame in scene.splits["train"]] == list(kept)


def test_each_split_has_as_many_at_most(tmp_path):
    scene = load_scene(write_transforms(tmp_path, 17), max_images=2)
    assert {split: len(frames) for split, frames in scene.splits.items()} == {"train": 2, "test": 2}


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"downscale": 0}, "downscale is 0; expected at least 1"),
        ({"downscale": 1.5}, "downscale is 1.5; expected an integer"),
        ({"downscale": 17}, r"downscale is 17; images/001\.png is 24x16 pixels"),
        ({"max_images": 0}, "max_images is 0; expected at least 1"),
    ],
)
def test_impossible_options_are_refused(tmp_path, options, complaint):
    with pytest.raises(InputError, match=complaint):
        load_scene(write_transforms(tmp_path, 3), **options)
