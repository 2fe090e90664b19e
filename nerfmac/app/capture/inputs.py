"""Upright images from a capture's input, which is a video or a folder of photos.

The images go to the scene's `images`, reduced to a longest side, so that every program that reads
the scene sees the same pixels. A PNG, JPEG or WebP that is upright and small enough is copied.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image, ImageOps

from nerfmac.app.capture.frame_selection import measure_frames, select_frames
from nerfmac.app.capture.video import full_frames, gray_frames, is_video, open_video
from nerfmac.app.scenes.images import (
    ALPHA_MODES,
    HEIF,
    ORIENTATION_TAG,
    UNREADABLE,
    UPRIGHT,
    Header,
    decode_mask,
    formats_of,
    inspect,
    is_image,
    is_unsupported,
    unsupported,
)
from nerfmac.app.scenes.masks import FOLDERS, without_masks
from nerfmac.common.checks import InputError
from nerfmac.common.extras import needed
from nerfmac.common.files import appearing, counted, make_folder

PLAIN = (".png", ".jpg", ".jpeg", ".webp")
"""Endings of formats that every program reads: upright, small enough images are copied."""
EXIF_TAGS, FOCAL_35MM = 0x8769, 0xA405
DIAGONAL_35MM = 43.27
"""Diagonal of 35 mm film in millimeters, by which CIPA defines EXIF's equivalent focal length."""
LEAST_35MM, MOST_35MM = 4.0, 2000.0
"""Shortest and longest plausible focal length in millimeters, as on 35 mm film."""
QUALITY = 95
"""JPEG quality of images that are not copied."""
LEAST_CONTRAST = 2.0
"""Standard deviation of gray values (0 to 255) below which a frame shows nothing."""

log = logging.getLogger("nerfmac")


class CapturedImage(NamedTuple):
    """A image in `images`: name, size, and focal length in pixels (0 if unknown)."""

    name: str
    width: int
    height: int
    focal: float


def is_input(path: Path) -> bool:
    """Whether `path` is a video, or a folder with images."""
    return is_video(path) or (path.is_dir() and bool(images_in(path)))


def images_in(folder: Path) -> list[Path]:
    """Image files in `folder`, or in its `images` if it has none, by name and number.

    Masks that are next to their photos are excluded.
    """
    for parent in (folder, folder / "images"):
        files = os.listdir(parent) if parent.is_dir() else []
        if names := sorted(filter(is_image, files), key=counted):
            return [parent / name for name in without_masks(names)]
    return []


def refuse_unsupported(folder: Path) -> None:
    """Raise InputError if a folder without photos has images in a format that is not read."""
    found = unsupported_in(folder)
    if found and not images_in(folder):
        raise unsupported(found[0], len(found))


def unsupported_in(folder: Path) -> list[Path]:
    """Images in `folder`, or in its `images` if it has none, in formats that are not read."""
    for parent in (folder, folder / "images"):
        files = os.listdir(parent) if parent.is_dir() else []
        if names := sorted(filter(is_unsupported, files), key=counted):
            return [parent / name for name in names]
    return []


def choose_frames(path: Path, count: int | None, bar: Any) -> list[int]:
    """Numbers of the frames to use from the video `path`, about `count`; None: its motion decides.

    `bar` counts measured frames. Raises InputError for a video that cannot be read or shows
    nothing.
    """
    video = open_video(path)
    bar.reset(video.frames // video.step)
    frames = measure_frames(_counted(gray_frames(video), bar))
    if not len(frames.sharpness):
        raise InputError(f"{path} has no frame that can be decoded")
    if frames.contrast.max() < LEAST_CONTRAST:
        raise InputError(f"{path} shows nothing: every frame has a single color")
    decoded = min(len(frames.sharpness) * video.step / video.frames, 1.0)
    if video.is_cut or decoded < 0.9:
        log.warning(
            f"{path} is cut off: of {video.says:.1f} seconds in its header "
            f"{decoded * video.seconds:.1f} ({decoded * video.frames:.0f} frames) can be decoded"
        )
    return [number * video.step for number in select_frames(frames, count)]


def take_frames(
    path: Path, numbers: Sequence[int], image_folder: Path, longest: int, bar: Any
) -> list[CapturedImage]:
    """Write the frames `numbers` of the video `path` to `image_folder`; `bar` counts them."""
    taken = []
    bar.reset(len(numbers))
    for number, frame in zip(numbers, full_frames(path, numbers, longest), strict=False):
        name = f"frame_{number:06}.jpg"
        _save(Image.fromarray(frame), image_folder / name)
        taken.append(CapturedImage(name, frame.shape[1], frame.shape[0], 0.0))
        bar.update()
    return taken


def take_images(
    paths: list[Path], image_folder: Path, longest: int, bar: Any, masks: Mapping[Path, Path]
) -> list[CapturedImage]:
    """Write the photos `paths` to `image_folder`; unreadable ones are left out with a warning.

    Their `masks` go to the folder `masks` next to that folder, black where pixels are ignored. As
    COLMAP expects a mask for each image, the other images then have white ones.
    Raises InputError for HEIC without pillow-heif, for a mask of another size than its photo, and
    if no image can be read.
    """
    if masks:
        make_folder(image_folder.with_name(FOLDERS[0]))
    if any(path.suffix.lower() in HEIF for path in paths):
        needed("pillow_heif", "capture", "HEIC images need").register_heif_opener()
    paths = _without_copies(paths)
    bar.reset(len(paths))

    def take(path: Path) -> CapturedImage | None:
        try:
            image = _take_image(path, image_folder, longest)
            if masks:
                to = image_folder.with_name(FOLDERS[0]) / f"{image.name}.png"
                _take_mask(masks.get(path), inspect(path), image, to)
            return image
        except UNREADABLE as error:
            if isinstance(error, InputError):
                raise
            log.warning("%s is left out, as it cannot be read: %s", path, error)
            return None

    with ThreadPoolExecutor() as pool:
        taken = [image for image in _counted(pool.map(take, paths), bar) if image]
    if not taken:
        raise InputError(f"none of the {len(paths)} images in {paths[0].parent} can be read")
    return taken


def focal_in_pixels(focal_35mm: float, width: int, height: int) -> float:
    """Focal length in pixels: `focal_35mm` times the diagonal / that of 35 mm film (CIPA)."""
    return focal_35mm * float(np.hypot(width, height)) / DIAGONAL_35MM


def _without_copies(paths: list[Path]) -> list[Path]:
    """The first path of each stem; a warning counts the others.

    Phones store one photo in two formats, IMG_1.HEIC and IMG_1.JPG.
    """
    kept = {path.stem: path for path in reversed(paths)}
    if len(kept) < len(paths):
        gone = next(path for path in paths if kept[path.stem] != path)
        log.warning(
            f"{len(paths) - len(kept)} of {len(paths)} images are left out: others differ only "
            f"in their endings, as {gone} from {kept[gone.stem].name}"
        )
    return [path for path in paths if kept[path.stem] == path]


def _take_image(path: Path, image_folder: Path, longest: int) -> CapturedImage:
    with Image.open(path, formats=formats_of(path)) as image:
        focal = _focal_35mm(image)
        is_plain = image.getexif().get(ORIENTATION_TAG, 1) == 1 and path.suffix.lower() in PLAIN
        is_plain = is_plain and max(image.size) <= longest
        upright = ImageOps.exif_transpose(image)
        upright.load()  # raises for a image that is cut short
        if is_plain:
            name, size = path.name, image.size
            with appearing(image_folder / name) as partial:
                shutil.copyfile(path, partial)
        else:
            has_alpha = upright.mode in ALPHA_MODES or "transparency" in upright.info
            name = f"{path.stem}{'.png' if has_alpha else '.jpg'}"
            upright.thumbnail((longest, longest), Image.Resampling.LANCZOS, reducing_gap=3.0)
            _save(upright.convert("RGBA" if has_alpha else "RGB"), image_folder / name)
            size = upright.size
    return CapturedImage(name, *size, focal_in_pixels(focal, *size))


def _take_mask(path: Path | None, photo: Header, image: CapturedImage, to: Path) -> None:
    """Write the mask `path` of a `photo` for its upright `image`; a white one without a path."""
    stored = np.ones(photo.stored_size[::-1], bool) if path is None else decode_mask(path)
    kept = Image.fromarray(stored)
    if kept.size not in (photo[:2], photo.stored_size):
        raise InputError(
            f"{path} is {kept.width}x{kept.height} pixels; expected a mask of its photo's size, "
            f"{photo.width}x{photo.height}"
        )
    if kept.size == photo.stored_size and photo.orientation in UPRIGHT:
        kept = kept.transpose(UPRIGHT[photo.orientation])
    with appearing(to) as partial:
        kept.resize((image.width, image.height), Image.Resampling.NEAREST).save(partial)


def _focal_35mm(image: Image.Image) -> float:
    with suppress(*UNREADABLE):
        value = float(image.getexif().get_ifd(EXIF_TAGS).get(FOCAL_35MM, 0))
        return value if LEAST_35MM <= value <= MOST_35MM else 0.0
    return 0.0


def _save(image: Image.Image, path: Path) -> None:
    with appearing(path) as partial:
        image.save(partial, quality=QUALITY)


def _counted(items: Any, bar: Any) -> Iterator[Any]:
    for item in items:
        yield item
        bar.update()
