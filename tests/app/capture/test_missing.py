"""Images without a camera are told with the reason."""

import numpy as np
import pytest
from PIL import Image, ImageFilter

from nerfmac.app.capture.structure import missing_images

NAMES = [f"{index:02}.png" for index in range(20)]


@pytest.fixture
def images(tmp_path):
    random = np.random.default_rng(2)
    for index, name in enumerate(NAMES):
        image = Image.fromarray(random.integers(0, 255, (48, 64, 3), np.uint8))
        if index in (3, 4, 11):
            image = image.filter(ImageFilter.GaussianBlur(2))
        image.save(tmp_path / name)
    return tmp_path


@pytest.mark.parametrize(
    ("missing", "said", "unsaid"),
    [
        ((3, 4), "2 blurred, such as 03.png", "overlaps"),
        ((3, 7, 8), "1 blurred, such as 03.png", "nothing"),
        ((3, 7, 8), "2 with too little overlap", "nothing"),
        ((7, 8), "such as 07.png", "blurred"),
    ],
)
def test_blurred_images_are_called_blurred(images, missing, said, unsaid, caplog):
    found = {name for index, name in enumerate(NAMES) if index not in missing}
    assert missing_images(images, NAMES, found) == [NAMES[index] for index in missing]
    (told,) = caplog.messages
    assert told.startswith(f"{len(missing)} of 20 images have no camera: ")
    assert said in told
    assert unsaid not in told
