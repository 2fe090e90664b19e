"""What a source of a capture contains besides plain photos in one folder is used or counted."""

import subprocess

import numpy as np
import pytest
from PIL import Image
from tqdm import tqdm

from nerfmac import InputError, load_scene
from nerfmac.app.capture import capture_scene
from nerfmac.app.capture.inputs import take_images
from nerfmac.app.capture.source import Source
from nerfmac.app.capture.video import (
    ffmpeg,
    full_frames,
    gray_frames,
    open_video,
    report_conversions,
)
from tests.app.capture.test_capture import solved, somewhere

__all__ = ["solved", "somewhere"]


def photo(path, seed=0):
    noise = np.random.default_rng([seed, *path.name.encode()]).integers(0, 255, (48, 64, 3))
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(noise.astype(np.uint8)).save(path)
    return path


def names(folder):
    return [path.relative_to(folder).as_posix() for path in Source(folder).photos]


@pytest.fixture
def bar():
    with tqdm(disable=True) as shown:
        yield shown


def test_photos_of_all_subfolders_are_found_in_order(tmp_path):
    for name in ("10.jpg", "9.jpg", "b/c/2.jpg", "b/1.jpg", "B room/1.jpg"):
        photo(tmp_path / name)
    (tmp_path / "away").mkdir()
    photo(tmp_path.with_name(f"{tmp_path.name}-away") / "3.jpg")
    (tmp_path / "linked").symlink_to(tmp_path.with_name(f"{tmp_path.name}-away"))
    (tmp_path / "b/loop").symlink_to(tmp_path)
    expected = ["9.jpg", "10.jpg", "B room/1.jpg", "b/1.jpg", "b/c/2.jpg", "linked/3.jpg"]
    assert names(tmp_path) == expected


def test_equal_names_in_two_folders_stay_apart_with_their_masks(tmp_path, bar):
    source, images = tmp_path / "source", tmp_path / "out/images"
    paths = [photo(source / f"{name}.tif", 3) for name in ("1", "a/1", "a/b/1", "c/1")]
    mask = photo(source / "masks/a/b/1.png")
    taken = take_images(paths, images, 32, bar, {paths[2]: mask})
    assert [image.name for image in taken] == ["1.jpg", "a/1.jpg", "a/b/1.jpg", "c/1.jpg"]
    for image in taken:
        with Image.open(images / image.name) as opened:
            assert opened.size == (32, 24)
        with Image.open(images.with_name("masks") / f"{image.name}.png") as opened:
            assert np.asarray(opened).all() == (image.name != "a/b/1.jpg")


def test_edited_photos_of_an_iphone_are_taken_once(tmp_path, bar, caplog):
    files = ("IMG_7.JPG", "IMG_8.JPG", "IMG_E7.JPG", "IMG_E9.JPG")
    paths = [photo(tmp_path / "p" / name) for name in files]
    scene = Image.radial_gradient("L").resize((64, 48)).convert("RGB")
    scene.save(paths[0], quality=95)
    scene.point(lambda value: min(value + 6, 255)).save(paths[2], quality=80)
    taken = take_images(paths, tmp_path / "images", 64, bar, {})
    assert [image.name for image in taken] == ["IMG_7.JPG", "IMG_8.JPG", "IMG_E9.JPG"]
    (line,) = caplog.messages
    assert line.startswith("skipping 1 of 4 images")
    assert line.endswith("IMG_E7.JPG and IMG_7.JPG")


def test_a_capture_of_subfolders_becomes_a_scene(tmp_path, solved):
    for index in range(12):
        photo(tmp_path / ("in/front", "in/back")[index % 2] / f"{index // 2:02}.png", index)
    capture_scene(tmp_path / "in", tmp_path / "scene", progress=False)
    scene = load_scene(tmp_path / "scene", split="none")
    expected = [f"images/{side}/{index:02}.png" for side in ("back", "front") for index in range(6)]
    assert [frame.name for frame in scene.splits["train"]] == expected
    capture_scene(tmp_path / "in", tmp_path / "scene", progress=False)
    photo(tmp_path / "in/front/new.png")
    with pytest.raises(InputError, match=r"has changed since: 1 added \(front/new\.png\)"):
        capture_scene(tmp_path / "in", tmp_path / "scene", progress=False)


@pytest.mark.parametrize(("ratio", "size"), [("2/1", (128, 48)), ("3/4", (64, 64))])
def test_an_anamorphic_video_has_square_pixels(tmp_path, ratio, size, caplog):
    caplog.set_level("INFO", "nerfmac")
    path = tmp_path / "clip.mkv"
    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", "64x48", "-i", "-"]
    command = [ffmpeg(), "-v", "error", *source, "-vf", f"setsar={ratio}", "-c:v", "ffv1", path]
    frame = np.tile(np.arange(64, dtype=np.uint8)[None, :, None] * 3, (48, 1, 3))
    subprocess.run(command, input=frame.tobytes() * 2, check=True)
    report_conversions(open_video(path))
    (full,) = full_frames(open_video(path), [0], 1000)
    assert full.shape == (size[1], size[0], 3)
    (reduced,) = full_frames(open_video(path), [0], 32)
    assert reduced.shape[:2] == tuple(side * 32 // max(size) for side in size[::-1])
    assert next(gray_frames(open_video(path))).shape == size[::-1]
    (line,) = caplog.messages
    assert f"has pixels of {ratio.replace('/', ':')}; scaling its frames to square pixels" in line
