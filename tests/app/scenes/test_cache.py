"""Downscaled images are cached on disk, and invalid cache files are ignored."""

import os

import numpy as np
import pytest
from PIL import Image

from nerfmac.app.scenes import cache as disk_cache, images, load_scene
from nerfmac.app.scenes.images import decode, decode_reduced
from tests.app.scenes.scene_files import save, write_transforms

SIZE = 400, 300


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("NERFMAC_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "images"


def noise(seed, channels=3):
    width, height = SIZE
    return np.random.default_rng(seed).integers(0, 256, (height, width, channels), np.uint8)


@pytest.fixture
def image(tmp_path):
    save(tmp_path / "a.png", noise(1))
    assert (tmp_path / "a.png").stat().st_size >= disk_cache.MIN_BYTES
    return tmp_path / "a.png"


@pytest.fixture
def decoded(monkeypatch):
    names = []

    def count(image, name, reduce=1, *, upright=True):
        names.append(name)
        return real(image, name, reduce, upright=upright)

    real = images.decode_reduced
    monkeypatch.setattr(images, "decode_reduced", count)
    return names


@pytest.mark.parametrize("channels", [3, 4])
def test_an_image_is_reduced_once_and_comes_back_as_it_was(tmp_path, cache, decoded, channels):
    save(tmp_path / "a.png", noise(2, channels))
    wanted = decode_reduced(tmp_path / "a.png", "a", 3)
    for _ in range(2):
        np.testing.assert_array_equal(decode(tmp_path / "a.png", channels, "a", 3), wanted)
    assert decoded == ["a"]
    assert len(list(cache.iterdir())) == 1
    save(tmp_path / "small.png", noise(1)[:20, :20])
    decode(tmp_path / "small.png", 3, "small", 2)
    decode(tmp_path / "a.png", channels, "a")
    decode(noise(4), 3, "array", 2)
    assert len(list(cache.iterdir())) == 1, "small files, whole images, and arrays are not kept"


@pytest.mark.parametrize("what", ["pixels", "time"])
def test_an_image_that_changed_is_decoded_anew(image, decoded, what):
    Image.fromarray(noise(6)).save(image, "BMP")  # BMP files of one image size are equally long.
    decode(image, 3, "a", 2)
    about = image.stat()
    if what == "pixels":
        save(image, np.concatenate([noise(5), noise(6)]))
        os.utime(image, ns=(about.st_atime_ns, about.st_mtime_ns))
    else:
        Image.fromarray(noise(7)).save(image, "BMP")
        os.utime(image, ns=(about.st_atime_ns, about.st_mtime_ns + 1000))
    np.testing.assert_array_equal(decode(image, 3, "a", 2), decode_reduced(image, "a", 2))
    assert decoded == ["a", "a"]


@pytest.mark.parametrize("broken", [b"", b"no image", None, "a folder", "gray"])
def test_a_broken_file_in_the_cache_is_not_believed(image, cache, decoded, broken):
    wanted = decode(image, 3, "a", 2)
    (kept,) = cache.iterdir()
    content = kept.read_bytes()
    kept.unlink()
    if broken == "a folder":
        kept.mkdir()
    elif broken == "gray":
        save(kept, np.zeros((4, 4), np.uint8))
    else:
        kept.write_bytes(content[: len(content) // 2] if broken is None else broken)
    np.testing.assert_array_equal(decode(image, 3, "a", 2), wanted)
    assert decoded == ["a", "a"]


def test_a_cache_that_cannot_be_written_is_done_without(image, tmp_path, monkeypatch, cache):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("NERFMAC_CACHE", str(tmp_path / "file"))
    assert decode(image, 3, "a", 2).shape == (150, 200, 3)
    monkeypatch.setenv("NERFMAC_CACHE", str(cache.parent))

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("PIL.Image.Image.save", full)
    assert decode(image, 3, "a", 2).shape == (150, 200, 3)
    assert list(cache.iterdir()) == []


def test_a_scene_is_read_from_the_cache_and_the_cache_kept_small(tmp_path, cache, monkeypatch):
    width, height = SIZE
    lens = {"w": width, "h": height, "cx": 200, "cy": 150}
    path = write_transforms(tmp_path, 3, **lens)
    for index in range(3):
        save(tmp_path / f"images/00{index}.png", noise(index))
    before = np.array(load_scene(path, split=8, downscale=4).views("train").pixels)
    assert len(list(cache.iterdir())) == 2
    monkeypatch.setattr(images, "decode_reduced", lambda *_, **__: pytest.fail("decoded"))
    np.testing.assert_array_equal(
        load_scene(path, split=8, downscale=4).views("train").pixels, before
    )
    monkeypatch.undo()
    monkeypatch.setenv("NERFMAC_CACHE", str(cache.parent))
    monkeypatch.setattr("nerfmac.app.scenes.scene.trim", lambda: disk_cache.trim(0))
    load_scene(path, split=8, downscale=4).views("train")
    assert list(cache.iterdir()) == []
