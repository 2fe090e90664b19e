"""Image files of every kind, read as Pillow alone would not."""

from contextlib import suppress

import numpy as np
import pytest
from PIL import Image

from nerfmac import InputError, load_scene
from nerfmac.app.scenes.image_search import ImageSearch
from nerfmac.app.scenes.images import SUPPORTED, decode, inspect
from tests.app.scenes.scene_files import pixels, write_transforms

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
    stored = np.ascontiguousarray(undo[orientation](upright))
    saved(path, stored, exif=exif, quality=100, subsampling=0)
    assert inspect(path).size == (32, 16)
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
    assert inspect(path) == (path, 24, 16, alpha, 1, mode in ("1", "L", "LA"))
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


@pytest.mark.parametrize("ending", ["png", "jpg"])
def test_a_truncated_image_is_refused_when_decoded(tmp_path, ending):
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    path = saved(tmp_path / f"cut.{ending}", noise)
    path.write_bytes(path.read_bytes()[:2000])
    assert inspect(path).size == (64, 64)
    with pytest.raises(InputError, match=rf"cut\.{ending} is not a readable image"):
        decode(path, 3, "cut")


def test_the_content_determines_the_format_and_the_number_of_pixels_is_not_limited(tmp_path):
    Image.fromarray(COLORS).save(tmp_path / "a.png")
    (tmp_path / "a.png").rename(tmp_path / "a.jpg")
    assert inspect(tmp_path / "a.jpg").size == COLORS.shape[1::-1]
    heif = pytest.importorskip("pillow_heif")
    heif.from_pillow(Image.fromarray(COLORS)).save(tmp_path / "b.heic")
    (tmp_path / "b.heic").rename(tmp_path / "b.jpg")
    assert inspect(tmp_path / "b.jpg").size == COLORS.shape[1::-1]
    # Current phones have 200 megapixels. Pillow refuses more than 179.
    Image.new("L", (16320, 12240)).save(tmp_path / "c.jpg", quality=95)
    assert inspect(tmp_path / "c.jpg").size == (16320, 12240)


def make(folder, *names: str):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder


def find(folder, *names: str, **options):
    found = {}
    with suppress(InputError):  # None of the images exist.
        found = ImageSearch(folder, **options).existing(names, "file.json")
    paths = map(found.get, range(len(names)))
    return [path and str(path.relative_to(folder)) for path in paths]


@pytest.mark.parametrize(
    ("given", "there", "found"),
    [
        ("C:\\Users\\me\\scene\\images\\1.png", ("images/1.png",), "images/1.png"),
        ("/home/me/scene/images/1.png", ("rgb/1.png",), "rgb/1.png"),
        ("/home/me/scene/images/1.png", ("images/1.jpg", "images_4/1.jpg"), "images/1.jpg"),
        ("images/1.png", ("images/1.JPEG",), "images/1.JPEG"),
        ("images/1.png", ("rgb/1.png", "masks/1.png", "depth_8/1.png"), "rgb/1.png"),
        ("../images/1.png", ("images/1.png",), "images/1.png"),
        ("images/1.png", ("left/1.png", "right/1.png"), None),
        ("right/images/1.png", ("left/images/1.png", "images/2.png"), "left/images/1.png"),
        ("images/1.png", ("images/11.png", "images/1.txt"), None),
        ("images/1.png", (".thumbnails/1.png",), None),
        ("..", ("images/1.png",), None),
    ],
)
def test_a_image_elsewhere_is_found_where_one_alone_fits(tmp_path, given, there, found, caplog):
    assert find(make(tmp_path, *there), given) == [found]
    assert caplog.messages == ([] if found is None else [caplog.messages[0]])
    if found:
        assert caplog.messages[0].startswith("1 of 1 images are not at the path in file.json")


@pytest.mark.parametrize("form", SUPPORTED)
def test_each_supported_extension_is_read_from_a_scene(tmp_path, form):
    if form == "HEIC":
        pytest.importorskip("pillow_heif").register_heif_opener()
    for ending in SUPPORTED[form]:
        folder = tmp_path / ending
        path = write_transforms(folder, 2, absent=(0, 1))
        for index in range(2):
            name = folder / f"images/{index:03d}{ending}"
            name.parent.mkdir(parents=True, exist_ok=True)
            colors = Image.fromarray(pixels(index))
            colors.save(name, "HEIF" if form == "HEIC" else form)
        views = load_scene(path, split="none").views("train")
        assert np.abs(np.array(views.photo(1)) * 255 - pixels(1)).mean() < 12
