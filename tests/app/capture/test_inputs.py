"""Videos and photos become upright images of a scene."""

import re
import subprocess

import numpy as np
import pytest
from imageio_ffmpeg import get_ffmpeg_exe
from PIL import Image
from tqdm import tqdm

from nerfmac.app.capture.inputs import choose_frames, take_frames, take_images
from nerfmac.app.capture.video import open_video
from nerfmac.app.video.encoding import write_video
from nerfmac.common import InputError, name_key

ORIENTATION, EXIF, FOCAL_35MM = 0x0112, 0x8769, 0xA405


@pytest.fixture(autouse=True)
def images(tmp_path):
    (tmp_path / "images").mkdir()


@pytest.fixture
def bar():
    with tqdm(disable=True) as each:
        yield each


def photo(path, size=(64, 48), *, orientation=None, focal=None, mode="RGB"):
    width, height = size
    rows = np.linspace(0, 255, height)[:, None] + np.zeros(width)
    columns = np.linspace(0, 255, width)[None] + np.zeros((height, 1))
    pixels = np.stack([rows, columns, rows * 0 + 90], axis=2).astype(np.uint8)
    exif = Image.Exif()
    if orientation:
        exif[ORIENTATION] = orientation
    if focal:
        exif.get_ifd(EXIF)[FOCAL_35MM] = focal
    Image.fromarray(pixels).convert(mode).save(path, exif=exif)
    return path


def moving(count, size=(64, 48), step=4):
    random = np.random.default_rng(5)
    ground = np.asarray(
        Image.fromarray(random.integers(0, 255, (40, 200, 3), np.uint8)).resize((800, 160))
    )
    for number in range(count):
        yield ground[20 : 20 + size[1], step * number : step * number + size[0]]


def test_a_photo_lying_on_a_side_is_stored_upright_and_its_focal_length_known(tmp_path, bar):
    path = photo(tmp_path / "a.jpg", (64, 48), orientation=6, focal=26)
    (taken,) = take_images([path], tmp_path / "images", 1000, bar, {})
    assert (taken.width, taken.height) == (48, 64)
    assert taken.focal == pytest.approx(26 * np.hypot(64, 48) / 43.27)
    with Image.open(tmp_path / "images" / taken.name) as stored:
        assert stored.size == (48, 64)
        assert ORIENTATION not in stored.getexif()
        upright = np.asarray(stored, int)
    assert upright[0, :, 0].mean() == pytest.approx(upright[-1, :, 0].mean(), abs=8)
    assert upright[:, 0, 0].mean() > upright[:, -1, 0].mean() + 200, "turned to the right"


def test_a_large_photo_is_reduced_and_its_focal_length_too(tmp_path, bar):
    paths = [photo(tmp_path / "a.jpg", (128, 96), focal=50)]
    paths += [photo(tmp_path / "b.png", (128, 96), mode="RGBA")]
    one, other = take_images(paths, tmp_path / "images", 32, bar, {})
    assert one[:3] == ("a.jpg", 32, 24)
    assert one.focal == pytest.approx(50 * 40 / 43.27)
    assert other[:3] == ("b.png", 32, 24)
    with Image.open(tmp_path / "images" / "b.png") as stored:
        assert stored.mode == "RGBA"


def test_a_format_that_colmap_does_not_read_is_converted(tmp_path, bar):
    paths = [photo(tmp_path / "a.webp"), photo(tmp_path / "b.png")]
    taken = take_images(paths, tmp_path / "images", 64, bar, {})
    assert [image.name for image in taken] == ["a.jpg", "b.png"]


def test_names_that_a_mac_takes_for_the_same_stay_apart(tmp_path, bar):
    random = np.random.default_rng(6)
    paths = [tmp_path / name for name in ("IMG_1.tif", "img_1.webp", "\u00e4.tif", "a\u0308.webp")]
    for path in paths:
        Image.fromarray(random.integers(0, 255, (48, 64, 3), np.uint8)).save(path)
    same = photo(tmp_path / "img_1.bmp")
    Image.open(paths[0]).save(same)
    taken = take_images([*paths, same], tmp_path / "images", 64, bar, {})
    assert len({name_key(image.name) for image in taken}) == 4
    assert all((tmp_path / "images" / image.name).is_file() for image in taken)


@pytest.mark.parametrize(
    ("second", "count"), [("2026:05:01 10:00:00", 1), ("2026:05:01 10:00:07", 2)]
)
def test_an_edited_photo_has_the_time_of_its_original(tmp_path, bar, second, count):
    paths = [tmp_path / "IMG_7.JPG", tmp_path / "IMG_E7.JPG"]
    random = np.random.default_rng(6)
    for path, time in zip(paths, ("2026:05:01 10:00:00", second), strict=True):
        exif = Image.Exif()
        exif.get_ifd(0x8769)[0x9003] = time
        pixels = random.integers(0, 255, (48, 64, 3), np.uint8)
        Image.fromarray(pixels).save(path, exif=exif)
    assert len(take_images(paths, tmp_path / "images", 64, bar, {})) == count


def test_one_that_is_cut_short_is_left_out_with_a_line(tmp_path, bar, caplog):
    paths = [photo(tmp_path / f"{name}.jpg") for name in "abc"]
    paths[1].write_bytes(paths[1].read_bytes()[:500])
    assert [taken.name for taken in take_images(paths, tmp_path / "images", 64, bar, {})] == [
        "a.jpg",
        "c.jpg",
    ]
    (line,) = caplog.messages
    assert line.startswith(f"1 of 3 images cannot be read and are skipped: {paths[1]} is not")
    for path in paths:
        path.write_bytes(b"nothing")
    with pytest.raises(
        InputError, match=f"^3 of 3 images cannot be read: {paths[0]} is not a readable image"
    ):
        take_images(paths, tmp_path / "images", 64, bar, {})


def test_frames_of_a_video_are_those_that_were_chosen(tmp_path, bar):
    path = tmp_path / "video.mp4"
    write_video(path, moving(40), fps=20)
    numbers = choose_frames(open_video(path), 6, bar)
    assert len(numbers) == 6
    assert np.all(np.diff(numbers) > 0)
    taken = take_frames(open_video(path), numbers, tmp_path / "images", 1000, bar)
    assert [each.name for each in taken] == [f"frame_{number:06}.jpg" for number in numbers]
    truth = list(moving(40))
    for each, number in zip(taken, numbers, strict=True):
        assert (each.width, each.height) == (64, 48)
        stored = np.asarray(Image.open(tmp_path / "images" / each.name), float)
        errors = [np.abs(stored - frame).mean() for frame in truth]
        assert np.argmin(errors) == number
    (small,) = take_frames(open_video(path), numbers[:1], tmp_path / "images", 32, bar)
    assert small[1:3] == (32, 24)


@pytest.mark.parametrize(
    ("ending", "flags", "says"),
    [
        (".mp4", "-movflags faststart", "4.0"),
        (".mp4", "-movflags frag_keyframe+empty_moov -frag_duration 200000", "..."),
        (".mkv", "", "4.0"),
    ],
)
def test_a_video_cut_short_says_how_much_of_it_is_there(tmp_path, bar, caplog, ending, flags, says):
    whole, cut = tmp_path / f"whole{ending}", tmp_path / f"cut{ending}"
    write_video(tmp_path / "video.mp4", moving(120, step=3), fps=30)
    copied = [get_ffmpeg_exe(), "-v", "error", "-i", tmp_path / "video.mp4", "-c", "copy"]
    subprocess.run([*copied, *flags.split(), whole], check=True)
    choose_frames(open_video(whole), 10, bar)
    assert caplog.messages == [], "nothing is missing"
    content = whole.read_bytes()
    cut.write_bytes(content[: len(content) // 2])
    last = choose_frames(open_video(cut), 10, bar)[-1]
    (line,) = caplog.messages
    pattern = rf"of {says} seconds in its header, only ... \((\d+) frames\) can be decoded"
    assert last < int(re.search(pattern, line)[1]) < 90
