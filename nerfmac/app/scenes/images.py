"""Image files: their headers, and their pixels as uint8 RGB or RGBA.

Sizes and pixels are those of the image turned upright by its EXIF orientation, as viewers show it,
unless the pixels as stored are asked for. Alpha is straight.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image

from nerfmac.common.checks import InputError
from nerfmac.common.extras import needed

Pixels = npt.NDArray[np.uint8]

HEIF = (".heic", ".heif")
"""Endings of iPhones' images; Pillow reads them by pillow-heif, of the extra `capture`."""
ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".tif", ".tiff", ".bmp", *HEIF)
"""File name endings of images, in lower case; files may have them in upper case."""
TRIED = (*ENDINGS, *(ending.upper() for ending in ENDINGS))
"""Endings tried, in this order, for a image's name without one."""

_RAW = ("dng", "cr2", "cr3", "nef", "arw", "orf", "rw2", "raf", "pef", "srw")
UNSUPPORTED = {
    **{f".{ending}": "camera raw" for ending in _RAW},
    **{".exr": "OpenEXR", ".hdr": "Radiance HDR", ".pfm": "PFM", ".dpx": "DPX"},
    **{".avif": "AVIF", ".jxl": "JPEG XL", ".jp2": "JPEG 2000", ".psd": "Photoshop"},
    **{".svg": "SVG", ".tga": "Targa", ".gif": "GIF"},
}
"""Formats of images that are not read, by file extension in lower case."""
INVERTED = "dynamic_mask_"
"""Beginning of the names of instant-ngp's masks, in which black pixels are kept."""
ORIENTATION_TAG = 0x0112
UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""Operations that undo EXIF orientations; from 5 on they swap width and height."""

OPAQUE = 250
"""Smallest alpha (0 to 255) that counts as opaque; below 255 to allow for rounding."""

ALPHA_MODES = ("RGBA", "RGBa", "LA", "La", "PA")
UNREADABLE = (Exception,)
"""Exceptions of Pillow's decoders for bytes that are no image: they may be any."""
FORMATS = ("PNG", "JPEG", "WEBP", "TIFF", "BMP", "GIF")
"""Formats that a image's bytes may have, whatever its name. Pillow knows more, and reads some by
other programs: PostScript by Ghostscript, which runs it."""


LARGE_PIXELS, MOST_PIXELS_A_BYTE = 2**26, 100
"""A image of more than LARGE_PIXELS may have so many pixels for a byte of its file. Cameras' have
about ten; a file of a few bytes may claim 10,000x10,000, which takes a gigabyte."""


class Header(NamedTuple):
    """Width and height of the upright image, and its EXIF orientation, 1 to 8."""

    width: int
    height: int
    has_alpha: bool
    orientation: int = 1

    @property
    def stored_size(self) -> tuple[int, int]:
        """Width and height of the image as stored."""
        is_turned = self.orientation >= 5
        return (self.height, self.width) if is_turned else (self.width, self.height)


def is_image(name: str) -> bool:
    """Return whether a file's name is that of a image; hidden files are not images."""
    return name.lower().endswith(ENDINGS) and not name.startswith(".")


def is_unsupported(name: str) -> bool:
    """Return whether a file's name is that of an image in a format that is not read."""
    return Path(name).suffix.lower() in UNSUPPORTED and not name.startswith(".")


def unsupported(path: Path, count: int = 1) -> InputError:
    """The InputError for `count` images in the format of `path`, which is not read."""
    ending = path.suffix.lower()
    images = f"{path} is" if count == 1 else f"{count} images such as {path} are"
    return InputError(
        f"{images} in the format {UNSUPPORTED[ending]} ({ending}), which is not supported: convert "
        "to PNG or JPEG in sRGB, with the same file name"
    )


def formats_of(path: Path) -> tuple[str, ...]:
    """Return Pillow's names of the formats that a image file called `path` may have."""
    return (*FORMATS, "HEIF") if path.suffix.lower() in HEIF else FORMATS


def inspect(path: Path) -> Header:
    """Read a image file's header; raises InputError that names the file if it is no image."""
    with _opened(path) as image:
        width, height = image.size
        orientation = _orientation(image)
        if orientation >= 5:
            width, height = height, width
        return Header(width, height, _has_alpha(image), orientation)


def is_cut_out(path: Path) -> bool:
    """Decode a image and return whether the alpha of any pixel is below OPAQUE."""
    with _opened(path) as image:
        if not _has_alpha(image):
            return False
        return bool(np.asarray(image.convert("RGBA"))[..., 3].min() < OPAQUE)


def decode(
    image: Path | Pixels, channels: int, name: str, reduce: int = 1, *, upright: bool = True
) -> Pixels:
    """Return the pixels, uint8 (h, w, `channels`), of a file or of an array in its place.

    `channels` is 3 or 4; a image without alpha gets alpha 255. Whole blocks of `reduce` x
    `reduce` pixels are averaged, from the top left corner on. Without `upright` the pixels are as
    they are stored, whatever EXIF says.

    Raises InputError that names the image if it cannot be decoded, or has alpha and `channels` is
    3.
    """
    return with_channels(decode_reduced(image, name, reduce, upright=upright), channels, name)


def decode_mask(path: Path, *, upright: bool = True) -> npt.NDArray[np.bool_]:
    """Return the pixels (h, w) that a mask does not exclude; raises InputError as `decode`."""
    level = decode(path, 4, str(path), upright=upright)[..., :3].max(axis=2)
    return level == 0 if path.name.startswith(INVERTED) else level > 127


def decode_reduced(
    image: Path | Pixels, name: str, reduce: int = 1, *, upright: bool = True
) -> Pixels:
    """Return the pixels as `decode` does, with the image's own number of channels."""
    pixels = _decode_file(image, upright) if isinstance(image, Path) else image
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] not in (3, 4):
        raise InputError(
            f"image {name} is {pixels.dtype} {pixels.shape}; expected uint8 (h, w, 3 or 4)"
        )
    if reduce > 1:
        whole_image = Image.fromarray(pixels)
        whole = whole_image.width // reduce * reduce, whole_image.height // reduce * reduce
        pixels = np.asarray(whole_image.reduce(reduce, (0, 0, *whole)))
    return pixels


def with_channels(pixels: Pixels, channels: int, name: str) -> Pixels:
    """Return the pixels with this number of `channels`.

    Adds alpha 255 where it is missing. Raises InputError if there is alpha and `channels` is 3.
    """
    if pixels.shape[2] > channels:
        raise InputError(f"image {name} has alpha in a scene that has none; expected RGB")
    if pixels.shape[2] < channels:
        opaque = np.full((*pixels.shape[:2], 1), 255, np.uint8)
        return np.concatenate([pixels, opaque], axis=2)
    return pixels


@contextmanager
def _opened(path: Path) -> Iterator[Image.Image]:
    if is_unsupported(path.name):
        raise unsupported(path)
    if path.suffix.lower() in HEIF:
        needed("pillow_heif", "capture", f"{path.name} needs").register_heif_opener()
    try:
        with Image.open(path, formats=formats_of(path)) as image:
            _refuse_bomb(image, path)
            yield image
    except UNREADABLE as error:
        if isinstance(error, InputError):
            raise
        reason = " ".join(str(error).split())  # libheif's ends in a line break
        raise InputError(
            f"{path} is not a readable image: {reason}; replace it, or leave it out"
        ) from error


def _refuse_bomb(image: Image.Image, path: Path) -> None:
    """Raise InputError if the file is far too small for the pixels that its header claims."""
    pixels, size = image.width * image.height, path.stat().st_size
    if pixels > max(LARGE_PIXELS, MOST_PIXELS_A_BYTE * size):
        raise InputError(
            f"{path} has {size} bytes for {image.width}x{image.height} pixels, which no photo "
            "compresses to; replace it, or leave it out"
        )


def _orientation(image: Image.Image) -> int:
    # Pillow decodes a whole PNG to look for EXIF behind the pixels, where it hardly ever is.
    if image.format == "PNG" and not {"exif", "Raw profile type exif"} & image.info.keys():
        return 1
    orientation = image.getexif().get(ORIENTATION_TAG, 1)
    return orientation if orientation in UPRIGHT else 1


def _has_alpha(image: Image.Image) -> bool:
    return image.mode in ALPHA_MODES or "transparency" in image.info


def _decode_file(path: Path, upright: bool) -> Pixels:
    with _opened(path) as image:
        transpose = UPRIGHT.get(_orientation(image)) if upright else None
        mode = "RGBA" if _has_alpha(image) else "RGB"
        if image.mode.startswith("I"):
            pixels = _from_sixteen_bits(image)
        elif image.mode == "F":
            raise InputError(
                f"{path} holds floating point numbers; expected 8 or 16 bits: convert it"
            )
        else:
            pixels = image if image.mode == mode else image.convert(mode)
        return np.asarray(pixels if transpose is None else pixels.transpose(transpose))


def _from_sixteen_bits(image: Image.Image) -> Image.Image:
    # Pillow's own conversion clips at 255, which makes almost every pixel white.
    gray = np.clip(np.asarray(image), 0, 2**16 - 1).astype(np.uint32)
    return Image.fromarray(((gray + 128) // 257).astype(np.uint8)).convert("RGB")
