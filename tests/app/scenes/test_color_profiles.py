"""Colors are sRGB, whatever color space the profile of an image file describes."""

import numpy as np
import pytest
from PIL import Image
from tqdm import tqdm

from nerfmac.app.capture.inputs import take_images
from nerfmac.app.scenes.images import INTEROPERABILITY_IFD, decode, is_srgb
from tests.app.scenes.icc import profile, to_srgb
from tests.app.scenes.scene_files import HEIGHT, WIDTH

RAMP = np.linspace(30, 220, WIDTH).astype(np.uint8)
COLORS = np.stack(
    [np.tile(RAMP, (HEIGHT, 1)), np.full((HEIGHT, WIDTH), 90), np.tile(RAMP[::-1], (HEIGHT, 1))], -1
).astype(np.uint8)
ADOBE = profile("RGB ", 2.2)


@pytest.mark.parametrize("ending", ["png", "tif", "webp"])
@pytest.mark.parametrize("alpha", [False, True])
def test_wide_gamut_is_converted_and_alpha_stays(tmp_path, ending, alpha):
    values = np.dstack([COLORS, np.tile(RAMP, (HEIGHT, 1))]) if alpha else COLORS
    options = {"lossless": True, "exact": True} if ending == "webp" else {}
    path = tmp_path / f"a.{ending}"
    Image.fromarray(values).save(path, icc_profile=ADOBE, **options)
    found = decode(path, 4, "a").astype(int)
    assert np.abs(found[..., :3] - to_srgb(COLORS, 2.2)).max() <= 2
    assert np.abs(found[..., :3] - COLORS).max() > 20
    np.testing.assert_array_equal(found[..., 3], values[..., 3] if alpha else 255)


@pytest.mark.parametrize("longest", [12, 1000])
def test_a_capture_writes_srgb(tmp_path, longest):
    photo = tmp_path / "photos/a.png"
    photo.parent.mkdir()
    Image.fromarray(COLORS).save(photo, icc_profile=ADOBE)
    (tmp_path / "images").mkdir()
    with tqdm(disable=True) as bar:
        (taken,) = take_images([photo], tmp_path / "images", longest, bar, {})
    with Image.open(tmp_path / "images" / taken.name) as image:
        assert is_srgb(image)
        mean = np.asarray(image, np.float64).mean((0, 1))
    assert np.abs(mean - to_srgb(COLORS, 2.2).mean((0, 1))).max() < 4


def exif_of_a_phone():
    exif = Image.Exif()
    exif.get_ifd(0x8769)[0xA405] = 26
    return {"exif": exif}


@pytest.mark.parametrize("options", [{}, exif_of_a_phone()])
def test_photos_without_an_interoperability_directory_are_read_with_every_pillow(
    tmp_path, monkeypatch, options
):
    """Pillow before 13 raises KeyError for this directory if it is missing, as in most photos."""
    whole = Image.Exif.get_ifd

    def of_earlier_versions(exif: Image.Exif, tag: int) -> dict:
        found = whole(exif, tag)
        if tag == INTEROPERABILITY_IFD and not found:
            raise KeyError(tag)
        return found

    monkeypatch.setattr(Image.Exif, "get_ifd", of_earlier_versions)
    Image.fromarray(COLORS).save(tmp_path / "a.jpg", quality=95, **options)
    assert np.abs(decode(tmp_path / "a.jpg", 3, "a.jpg").astype(int) - COLORS).mean() < 12
