"""Blurred and equal images are named."""

import numpy as np
from PIL import Image, ImageFilter

from nerfmac import Camera, Frame, Lens
from nerfmac.app.inspection.images import image_findings, measure_images

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
    return image_findings(list(images), measure_images(frames, progress=False))


def blurred(image):
    return np.asarray(Image.fromarray(image).filter(ImageFilter.GaussianBlur(2)))


def test_a_blurred_image_is_named():
    (line,) = findings(c=blurred(texture(2)))
    assert line.startswith("c is blurred")
