"""360-degree photos and videos are refused, and wide photos are not."""

import numpy as np
import pytest
from PIL import Image, PngImagePlugin

from nerfmac import CaptureOptions, InputError
from nerfmac.app.capture import capture, capture_scene
from nerfmac.app.capture.source import has_spherical_tag, is_panorama
from nerfmac.app.video.encoding import write_video


@pytest.fixture(autouse=True)
def without_pycolmap(monkeypatch):
    monkeypatch.setattr(capture, "need_pycolmap", lambda: None)


def around(turn, *, closed=True, height=64, width=128):
    """Return a smooth image (h, w, 3) whose right edge continues at its left edge if `closed`."""
    random = np.random.default_rng(4)
    across = np.linspace(0, 2 * np.pi if closed else 4.4, width, endpoint=False) + turn
    down = np.linspace(0, 1, height)[:, None]
    gray = sum(
        random.normal() * np.sin(k * across + 6 * random.random() + (k + 2) * down)
        for k in range(1, 6)
    )
    return np.repeat(np.clip(128 + 40 * gray, 0, 255).astype(np.uint8)[..., None], 3, axis=2)


def with_black_bars(image):
    image = image.copy()
    image[:, :6] = image[:, -6:] = 0
    return image


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        (around(0.0), True),
        (around(2.0), True),
        (around(0.0, closed=False), False),
        (around(0.0, height=60), False),
        (np.zeros((64, 128, 3), np.uint8), False),
        (with_black_bars(around(0.0, closed=False)), False),
    ],
)
def test_an_image_of_all_directions_has_equal_edges(tmp_path, image, expected):
    Image.fromarray(image).save(tmp_path / "image.png")
    assert is_panorama(tmp_path / "image.png") == expected


def test_a_360_degree_video_is_refused_and_leaves_no_folder(tmp_path):
    write_video(tmp_path / "walk.mp4", [around(0.1 * k) for k in range(12)], fps=8)
    for _ in range(2):
        with pytest.raises(InputError, match=r"360-degree .* cut each panorama into perspective"):
            capture_scene(
                tmp_path / "walk.mp4", tmp_path / "walk", CaptureOptions(frames=6), progress=False
            )
        assert not (tmp_path / "walk").exists()


def test_photos_with_spherical_metadata_are_refused(tmp_path):
    info = PngImagePlugin.PngInfo()
    info.add_text("XML:com.adobe.xmp", '<rdf GPano:ProjectionType="equirectangular"/>')
    (tmp_path / "photos").mkdir()
    for number in range(4):
        path = tmp_path / f"photos/{number}.png"
        Image.fromarray(around(number, closed=False, height=60)).save(path, pnginfo=info)
        assert has_spherical_tag(path)
    with pytest.raises(InputError, match="photos contains 360-degree"):
        capture_scene(tmp_path / "photos", tmp_path / "scene", progress=False)
