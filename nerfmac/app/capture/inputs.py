"""Creation of upright images in the folder `images` from a video or a folder of photos, so that all
programs use the same pixels, and a report on those without a camera. Large images are downscaled.
Upright, small PNG and JPEG files are copied."""

import os
import re
import shutil
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from nerfmac.app.capture import video
from nerfmac.app.capture.two_views import CapturedImage
from nerfmac.app.scenes import images
from nerfmac.app.scenes.masks import FOLDERS
from nerfmac.common import InputError, appearing, log, make_folder, name_key
from nerfmac.config.scenes import MAX_35MM, MIN_35MM

PLAIN = {"PNG": (".png",), "JPEG": (".jpg", ".jpeg"), "MPO": (".jpg", ".jpeg")}
"""File extensions of the formats that all programs can read, by Pillow's names of the formats.
Upright and small images are copied. COLMAP does not read WebP files."""
LARGER = 3
"""Size at which a large JPEG file is decoded at least, relative to the size of the image that is
written. More pixels do not change the image."""
EXIF_TAGS, FOCAL_35MM, TAKEN = 0x8769, 0xA405, 0x9003
DIAGONAL_35MM = 43.27
"""Diagonal of a 35 mm frame in millimeters, the reference of the 35 mm equivalent focal length
(CIPA)."""
THUMBNAIL, SAME = 32, 0.03
"""Side in pixels of the gray images that are compared, and the maximum mean difference of images of
the same photo, with a mean of 0 and a standard deviation of 1. Measured: at most 0.02 for other
formats and sizes of the same photo, and at least 0.03 for cameras that are 1 degree apart."""
QUALITY = 95  # JPEG quality of images that are not copied.
MIN_CONTRAST = 2.0
"""Standard deviation of the gray values (0 to 255) below which a frame counts as empty."""

FEW_IMAGES = 12  # Number of images below which a capture fails because it has too few images.

EDITED = re.compile(r"(IMG_)E(\d+)")
"""File name of an edited photo of an iPhone, which is stored in addition to the original."""


def choose_frames(opened: video.Video, count: int | None, bar: Any) -> list[int]:
    """Choose about `count` frames of a video, and return their numbers in ascending order, starting
    at 0. By default, the count depends on the motion. `bar` counts the measured frames."""
    path = opened.path
    bar.reset(opened.frames // opened.step)
    frames = video.measure_frames(_counted(video.gray_frames(opened), bar))
    if not len(frames.sharpness):
        raise InputError(f"no frame of {path} can be decoded; record or export the video again")
    if frames.contrast.max() < MIN_CONTRAST:
        raise InputError(f"{path} is empty: every frame has a single color; use another video")
    decoded = min(len(frames.sharpness) * opened.step / opened.frames, 1.0)
    if opened.is_cut or decoded < 0.9:
        log.warning(
            f"{path} is truncated: of {opened.says:.1f} seconds in its header, only "
            f"{decoded * opened.seconds:.1f} ({decoded * opened.frames:.0f} frames) can be decoded"
        )
    return [number * opened.step for number in video.select_frames(frames, count)]


def advice(count: int, *, is_video: bool) -> str:
    """Return what to do if the cameras of `count` images cannot be estimated."""
    if count >= FEW_IMAGES:
        return (
            "move the camera more slowly or take more images, let each image overlap the next one, "
            "walk around instead of turning in place, and avoid bare walls, glass, and motion blur"
        )
    if is_video:
        return (
            "this is too few images; record a video of at least 20 seconds while you walk around "
            "the subject, or extract more frames with --frames"
        )
    return "this is too few images; take 30 photos or more from all sides of the subject"


def take_frames(
    opened: video.Video, numbers: Sequence[int], image_folder: Path, longest: int, bar: Any
) -> list[CapturedImage]:
    """Write frames of a video to an image folder. `numbers` is in ascending order, and `longest` is
    the maximum length of the longer side in pixels."""
    taken = []
    bar.reset(len(numbers))
    for number, frame in zip(numbers, video.full_frames(opened, numbers, longest), strict=False):
        name = f"frame_{number:06}.jpg"
        _save(Image.fromarray(frame), image_folder / name)
        taken.append(CapturedImage(name, frame.shape[1], frame.shape[0], 0.0))
        bar.update()
    return taken


def take_images(
    paths: list[Path], image_folder: Path, longest: int, bar: Any, masks: Mapping[Path, Path]
) -> list[CapturedImage]:
    """Write photos to an image folder. Unreadable photos are skipped with a warning. Photos from
    several folders are written to subfolders with the same names.

    Masks are written to the folder `masks` next to the image folder, with black for excluded
    pixels. COLMAP expects a mask for each image, so a white mask is written for each image without
    a mask. `longest` is the maximum length of the longer side in pixels.
    """
    if masks:
        make_folder(image_folder.with_name(FOLDERS[0]))
    root = Path(os.path.commonpath([path.parent for path in paths]))
    paths = _without_copies(paths)
    stems = Counter(name_key(str(path.relative_to(root).with_suffix(""))) for path in paths)
    bar.reset(len(paths))

    def take(path: Path) -> CapturedImage | images.UnreadableError:
        try:
            relative = path.relative_to(root)
            # Photos of two cameras may have the same names, apart from the file extension.
            plain = relative.with_suffix("")
            stem = relative if stems[name_key(str(plain))] > 1 else plain
            image = _take_image(path, relative, stem, image_folder, longest)
            if masks:
                to = image_folder.with_name(FOLDERS[0]) / f"{image.name}.png"
                _take_mask(masks.get(path), images.inspect(path), image, to)
            return image
        except images.UnreadableError as error:
            return error

    with ThreadPoolExecutor() as pool:
        results = list(_counted(pool.map(take, paths), bar))
    taken = [result for result in results if isinstance(result, CapturedImage)]
    if unread := [result for result in results if isinstance(result, images.UnreadableError)]:
        count = f"{len(unread)} of {len(paths)} images cannot be read"
        if not taken:
            raise InputError(f"{count}: {unread[0]}")
        log.warning("%s and are skipped: %s", count, unread[0])
    return taken


def focal_in_pixels(focal_35mm: float, width: int, height: int) -> float:
    """Convert a 35 mm equivalent focal length, relative to the image diagonal (CIPA), to pixels."""
    return focal_35mm * float(np.hypot(width, height)) / DIAGONAL_35MM


def _without_copies(paths: list[Path]) -> list[Path]:
    """Drop photos that show the same as an earlier photo whose path differs only in the file
    extension or in the E of edited photos, and log their number. Some phones store a photo in two
    formats, such as IMG_1.HEIC and IMG_1.JPG, and iPhones store an edited photo as IMG_E1.JPG. Two
    cameras also use the same names, for different photos."""
    kept: dict[str, list[Path]] = {}
    gone: dict[Path, Path] = {}
    for path in paths:
        group = kept.setdefault(name_key(str(path.with_name(EDITED.sub(r"\1\2", path.stem)))), [])
        same = next((other for other in group if _shows_the_same(path, other)), None)
        if same is None:
            group.append(path)
        else:
            gone[path] = same
    if gone:
        first = next(iter(gone))
        log.warning(
            f"skipping {len(gone)} of {len(paths)} images, because others show the same and differ "
            f"only in the file extension or in editing, such as {first} and {gone[first].name}"
        )
    return [path for path in paths if path not in gone]


def _shows_the_same(one: Path, other: Path) -> bool:
    """Return whether two photos were taken at the same time or have nearly the same pixels."""
    try:
        with images.opened(one) as image, images.opened(other) as another:
            times = [each.getexif().get_ifd(EXIF_TAGS).get(TAKEN) for each in (image, another)]
            if all(times):
                return bool(times[0] == times[1])
        thumbnails = [images.decode_thumbnail(path, THUMBNAIL) for path in (one, other)]
    except images.UnreadableError:
        return False
    first, second = (image[..., :3].mean(axis=2) for image in thumbnails)
    normal = [(gray - gray.mean()) / max(gray.std(), 1.0) for gray in (first, second)]
    return first.shape == second.shape and bool(np.abs(normal[0] - normal[1]).mean() <= SAME)


def _take_image(
    path: Path, relative: Path, stem: Path, image_folder: Path, longest: int
) -> CapturedImage:
    """Write a photo to the path `relative` in the image folder. If its pixels or its file extension
    change, the new path is `stem` with a suitable file extension."""
    make_folder((image_folder / relative).parent)
    with images.opened(path) as image:
        focal, orientation = _focal_35mm(image), images.orientation_of(image)
        suffixes = PLAIN.get(image.format or "", ())
        is_small = max(image.size) <= longest
        is_plain = suffixes and orientation == 1 and images.is_srgb(image) and is_small
        # JPEG files that are much larger are decoded at half the size or less.
        image.draft(None, (LARGER * longest, LARGER * longest))
        image.load()  # Raises if the image is truncated.
        size = image.size
        if is_plain:
            has_suffix = path.suffix.lower() in suffixes
            name = relative.as_posix() if has_suffix else f"{stem.as_posix()}{suffixes[0]}"
            with appearing(image_folder / name) as partial:
                shutil.copyfile(path, partial)
        else:
            pixels = images.in_srgb(image, path)
            name = f"{stem.as_posix()}{'.png' if pixels.mode == 'RGBA' else '.jpg'}"
            if orientation in images.UPRIGHT:
                pixels = pixels.transpose(images.UPRIGHT[orientation])
            pixels.thumbnail((longest, longest), Image.Resampling.LANCZOS, reducing_gap=3.0)
            _save(pixels, image_folder / name)
            size = pixels.size
    return CapturedImage(name, *size, focal_in_pixels(focal, *size))


def _take_mask(path: Path | None, photo: images.Photo, image: CapturedImage, to: Path) -> None:
    """Write a photo's mask, or a white one, with the orientation and size of the image."""
    stored = np.ones(photo.stored_size[::-1], bool) if path is None else images.decode_mask(path)
    kept = Image.fromarray(stored)
    is_stored = images.same_aspect(kept.size, photo.stored_size)
    if not is_stored and not images.same_aspect(kept.size, photo.size):
        raise InputError(
            f"{path} has {kept.width}x{kept.height} pixels; a mask must have the aspect ratio of "
            f"its photo, {photo.width}x{photo.height}"
        )
    if is_stored and photo.orientation in images.UPRIGHT:
        kept = kept.transpose(images.UPRIGHT[photo.orientation])
    make_folder(to.parent)
    with appearing(to) as partial:
        kept.resize((image.width, image.height), Image.Resampling.NEAREST).save(partial)


def _focal_35mm(image: Image.Image) -> float:
    with suppress(*images.UNREADABLE):
        value = float(image.getexif().get_ifd(EXIF_TAGS).get(FOCAL_35MM, 0))
        return value if MIN_35MM <= value <= MAX_35MM else 0.0
    return 0.0


def _save(image: Image.Image, path: Path) -> None:
    with appearing(path) as partial:
        image.save(partial, quality=QUALITY)


def _counted(items: Any, bar: Any) -> Iterator[Any]:
    for item in items:
        yield item
        bar.update()


def missing_images(folder: Path, names: Sequence[str], registered: Container[str]) -> list[str]:
    """Return the sorted names of the images without a camera. If there are any, log the probable
    reasons. An image counts as blurred if its sharpness is below `BLURRED` times the median
    sharpness."""
    missing = sorted(name for name in names if name not in registered)
    if not missing:
        return missing
    sharpness = {name: _sharpness(folder / name) for name in names}
    threshold = video.BLURRED * float(np.median(list(sharpness.values())))
    groups = {
        "blurred": [name for name in missing if sharpness[name] < threshold],
        "with too little overlap with other images": [
            name for name in missing if sharpness[name] >= threshold
        ],
    }
    reasons = [f"{len(some)} {why}, such as {some[0]}" for why, some in groups.items() if some]
    log.warning("%d of %d images have no camera: %s", len(missing), len(names), "; ".join(reasons))
    return missing


def _sharpness(path: Path) -> float:
    with images.opened(path) as image:
        gray = image.convert("L")
    gray.thumbnail((video.GRAY_SIZE, video.GRAY_SIZE), Image.Resampling.BOX)
    return video.laplacian_variance(np.asarray(gray, np.float32))
