"""Pictures that are blurred, badly exposed or there twice are named."""

import numpy as np
import pytest
from PIL import Image, ImageFilter
from tqdm import tqdm

from nerfmac.app.inspection.pictures import measure_pictures, picture_findings
from nerfmac.app.scenes import Frame
from nerfmac.geometry.cameras import Camera
from nerfmac.geometry.lenses import Lens

LENS = Lens.from_fov(1.0, 96, 64)


def texture(seed):
    random = np.random.default_rng(seed)
    coarse = random.integers(60, 190, (8, 12, 3), np.uint8)
    smooth = np.asarray(Image.fromarray(coarse).resize((96, 64)), float)
    return np.clip(smooth + random.normal(0, 12, smooth.shape), 0, 255).astype(np.uint8)


def findings(**changed):
    """Return what is found in eight textures, some of which are `changed`, by their letters."""
    pictures = {name: texture(index) for index, name in enumerate("abcdefgh")} | changed
    camera = Camera.look_at((2, 1, 3), (0, 0, 0), (0, 0, 1), LENS)
    frames = [Frame(camera, picture, name) for name, picture in pictures.items()]
    with tqdm(disable=True) as bar:
        return picture_findings(list(pictures), measure_pictures(frames, bar))


def test_good_pictures_are_not_named():
    assert findings() == []


def blurred(picture):
    return np.asarray(Image.fromarray(picture).filter(ImageFilter.GaussianBlur(2)))


def lit(picture, gain, offset=0):
    return np.clip(picture * gain + offset, 0, 255).astype(np.uint8)


def half(picture, value):
    painted = picture.copy()
    painted[:30] = value
    return painted


@pytest.mark.parametrize(
    ("picture", "words"),
    [
        (blurred(texture(2)), "c is blurred"),
        (lit(texture(2), 0.1), "c is too dark: 1"),
        (lit(texture(2), 0.5, 200), "c is too bright: 2"),
        (half(texture(2), 255), "c is overexposed: 47% of it is white"),
        (half(texture(2), 0), "c is underexposed: 47% of it is black"),
        (lit(texture(2), 1.0, 60), "c is brighter than the others"),
        (lit(texture(2), 1.0, -55), "c is darker than the others"),
    ],
)
def test_a_bad_picture_is_named_with_what_is_wrong(picture, words):
    found = findings(c=picture)
    assert any(line.startswith(words) for line in found), found
    assert all(line.startswith("c is") for line in found)


def before(backdrop, picture):
    """Return the picture's middle before a backdrop of one value."""
    painted = np.full_like(picture, backdrop)
    painted[16:48, 32:64] = picture[16:48, 32:64]
    return painted


@pytest.mark.parametrize("backdrop", [0, 255])
def test_a_backdrop_that_most_pictures_have_is_no_bad_exposure(backdrop):
    pictures = {name: before(backdrop, texture(index)) for index, name in enumerate("abcdefgh")}
    assert findings(**pictures) == []
    pictures["d"] = before(backdrop, lit(texture(3), 0.1))
    assert any(line.startswith("d is too dark: 1") for line in findings(**pictures))
    pictures["d"] = before(backdrop, lit(texture(3), 0.5, 200))
    assert any(line.startswith("d is too bright: 2") for line in findings(**pictures))


def test_many_findings_of_one_kind_are_counted_and_a_few_named():
    film = {name: texture(0) for name in "abcdefgh"}
    (line,) = findings(**film)
    assert line.startswith("7 pictures show the same as an earlier one, such as: b shows the same")
    assert "d shows" in line
    assert "e shows" not in line
    few = {name: texture(0) for name in "abcdef"}
    assert len(findings(**few)) == 5


def test_the_same_picture_twice_is_named():
    noisy = np.clip(
        texture(1).astype(int) + np.random.default_rng(0).integers(-2, 3, (64, 96, 3)), 0, 255
    )
    (line,) = findings(g=noisy.astype(np.uint8))
    assert line == "g shows the same as b"
