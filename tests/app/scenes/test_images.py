"""Image files of every kind, read as Pillow alone would not."""

import numpy as np
import pytest
from PIL import Image

from nerfmac.app.scenes.images import decode, inspect
from nerfmac.common.checks import InputError
from tests.app.scenes.scene_files import pixels

COLORS = pixels(5, 4)


def saved(path, values, mode=None, **options):
    image = Image.fromarray(values)
    (image if mode is None else image.convert(mode)).save(path, **options)
    return path


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("ending", ["png", "jpg"])
def test_a_image_is_turned_as_its_exif_says(tmp_path, orientation, ending):
    upright = np.zeros((16, 32, 3), np.uint8)
    upright[:8, :8] = 255, 0, 0  # red at the top left, blue at the bottom left
    upright[8:, :8] = 0, 0, 255
    undo = {
        1: lambda a: a,
        2: lambda a: a[:, ::-1],
        3: lambda a: a[::-1, ::-1],
        4: lambda a: a[::-1],
        5: lambda a: a.swapaxes(0, 1),
        6: lambda a: np.rot90(a, 1),
        7: lambda a: a[::-1, ::-1].swapaxes(0, 1),
        8: lambda a: np.rot90(a, -1),
    }
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = tmp_path / f"turned.{ending}"
    saved(
        path,
        np.ascontiguousarray(undo[orientation](upright)),
        exif=exif,
        quality=100,
        subsampling=0,
    )
    assert inspect(path)[:2] == (32, 16)
    got = decode(path, 3, "turned").astype(int)
    assert got.shape == (16, 32, 3)
    assert np.abs(got - upright).mean() < 2, "JPEG rounds, nothing else"


@pytest.mark.parametrize(
    ("mode", "alpha"),
    [("RGB", False), ("RGBA", True), ("L", False), ("LA", True), ("P", False), ("1", False)],
)
def test_any_mode_becomes_rgb_or_rgba(tmp_path, mode, alpha):
    colors = COLORS if alpha else COLORS[..., :3]
    path = saved(tmp_path / "a.png", colors, mode)
    assert inspect(path) == (24, 16, alpha, 1)
    got = decode(path, 4 if alpha else 3, "a")
    want = Image.fromarray(colors).convert(mode).convert("RGBA" if alpha else "RGB")
    assert got.dtype == np.uint8
    np.testing.assert_array_equal(got, np.asarray(want))


def test_sixteen_bits_become_eight_by_scale_not_by_clipping(tmp_path):
    deep = np.arange(24 * 16, dtype=np.uint16).reshape(16, 24) * 170
    got = decode(saved(tmp_path / "a.png", deep), 3, "a")
    np.testing.assert_array_equal(got[..., 0], np.rint(deep / 257))
    np.testing.assert_array_equal(got[..., 0], got[..., 2])
    assert got.max() > 250


def test_opaque_images_get_full_alpha_beside_transparent_ones(tmp_path):
    path = saved(tmp_path / "a.png", COLORS[..., :3])
    got = decode(path, 4, "a")
    np.testing.assert_array_equal(got[..., :3], COLORS[..., :3])
    assert (got[..., 3] == 255).all()


@pytest.mark.parametrize("ending", ["png", "jpg"])
def test_a_truncated_image_is_refused_when_decoded(tmp_path, ending):
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    path = saved(tmp_path / f"cut.{ending}", noise)
    path.write_bytes(path.read_bytes()[:2000])
    assert inspect(path)[:2] == (64, 64)
    with pytest.raises(InputError, match=rf"cut\.{ending} is not a readable image"):
        decode(path, 3, "cut")


def test_bytes_that_are_no_image_are_refused_by_the_header(tmp_path):
    zero = saved(tmp_path / "zero.png", COLORS)
    data = bytearray(zero.read_bytes())
    data[16:20] = bytes(4)  # the width in the IHDR chunk
    zero.write_bytes(data)
    (tmp_path / "text.png").write_text("hello")
    (tmp_path / "empty.jpg").write_bytes(b"")
    bomb = saved(tmp_path / "bomb.bmp", COLORS)
    data = bytearray(bomb.read_bytes())
    data[18:26] = (30_000).to_bytes(4, "little") * 2  # width and height
    bomb.write_bytes(data)
    for name in ("zero.png", "text.png", "empty.jpg", "bomb.bmp"):
        with pytest.raises(InputError, match=f"{name} is not a readable image"):
            inspect(tmp_path / name)
