"""Images that are blurred, badly exposed or there twice are named."""

import numpy as np
import pytest
from PIL import Image, ImageFilter
from tqdm import tqdm

from nerfmac.app.inspection.images import image_findings, measure_images
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
    """Inspect eight textures, some of them `changed`, and return the findings by letters."""
    images = {name: texture(index) for index, name in enumerate("abcdefgh")} | changed
    camera = Camera.look_at((2, 1, 3), (0, 0, 0), (0, 0, 1), LENS)
    frames = [Frame(camera, image, name) for name, image in images.items()]
    with tqdm(disable=True) as bar:
        return image_findings(list(images), measure_images(frames, bar))


def blurred(image):
    return np.asarray(Image.fromarray(image).filter(ImageFilter.GaussianBlur(2)))


def lit(image, gain, offset=0):
    return np.clip(image * gain + offset, 0, 255).astype(np.uint8)


def half(image, value):
    painted = image.copy()
    painted[:30] = value
    return painted


@pytest.mark.parametrize(
    ("image", "words"),
    [
        (blurred(texture(2)), "c is blurred"),
        (lit(texture(2), 0.1), "c is too dark: mean 1"),
        (lit(texture(2), 0.5, 200), "c is too bright: mean 2"),
        (half(texture(2), 255), "c is overexposed: 47% of the pixels are white"),
        (lit(texture(2), 1.0, 60), "c is brighter than the others"),
    ],
)
def test_a_bad_image_is_named_with_what_is_wrong(image, words):
    found = findings(c=image)
    assert any(line.startswith(words) for line in found), found
    assert all(line.startswith("c is") for line in found)


def before(backdrop, image):
    """Return the image's middle before a backdrop of one value."""
    painted = np.full_like(image, backdrop)
    painted[16:48, 32:64] = image[16:48, 32:64]
    return painted


@pytest.mark.parametrize("backdrop", [0, 255])
def test_a_backdrop_that_most_images_have_is_no_bad_exposure(backdrop):
    images = {name: before(backdrop, texture(index)) for index, name in enumerate("abcdefgh")}
    assert findings(**images) == []
    images["d"] = before(backdrop, lit(texture(3), 0.1))
    assert any(line.startswith("d is too dark: mean 1") for line in findings(**images))
    images["d"] = before(backdrop, lit(texture(3), 0.5, 200))
    assert any(line.startswith("d is too bright: mean 2") for line in findings(**images))


def test_many_findings_of_one_kind_are_counted_and_a_few_named():
    video = {name: texture(0) for name in "abcdefgh"}
    (line,) = findings(**video)
    assert line.startswith("7 images are the same as an earlier one, such as: b is the same")
    assert "d is the same" in line
    assert "e shows" not in line
    few = {name: texture(0) for name in "abcdef"}
    assert len(findings(**few)) == 5
    noise = np.random.default_rng(0).integers(-2, 3, (64, 96, 3))
    noisy = np.clip(texture(1).astype(int) + noise, 0, 255).astype(np.uint8)
    assert findings(g=noisy) == ["g is the same image as b"]
    assert findings() == []
