"""Reading of image headers and of pixels as uint8 RGB or RGBA in sRGB.

Pixels are converted with the ICC profiles that image files contain. Photos of phones and cameras
often have the profile Display P3 or Adobe RGB.

Sizes and pixels are upright, after applying the EXIF orientation, unless stated otherwise. Alpha is
straight (not premultiplied).
"""

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageCms

from nerfmac.app.scenes.cache import cached_path, read_cached, write_cached
from nerfmac.common import BoolArray, InputError, UInt8Array, log, needed

HEIF = (".heic", ".heif")
"""File extensions of HEIF images, as from an iPhone, which require the extra `capture`."""
SUPPORTED = {
    "PNG": (".png",),
    "JPEG": (".jpg", ".jpeg"),
    "WebP": (".webp",),
    "TIFF": (".tif", ".tiff"),
    "BMP": (".bmp",),
    "GIF": (".gif",),
    "HEIC": HEIF,
}
"""Names of the supported image formats, with their file extensions in lower case."""
EXTENSIONS = tuple(extension for extensions in SUPPORTED.values() for extension in extensions)
"""File extensions of supported images, in lower case. Upper case is also supported."""
TRIED = (*EXTENSIONS, *(extension.upper() for extension in EXTENSIONS))
"""File extensions that are tried, in this order, for an image name without an extension."""
_RAW = ("dng", "cr2", "cr3", "nef", "arw", "orf", "rw2", "raf", "pef", "srw")
UNSUPPORTED = {
    **{f".{extension}": "camera raw" for extension in _RAW},
    **{".exr": "OpenEXR", ".hdr": "Radiance HDR", ".pfm": "PFM", ".dpx": "DPX"},
    **{".avif": "AVIF", ".jxl": "JPEG XL", ".jp2": "JPEG 2000", ".psd": "Photoshop"},
    **{".svg": "SVG", ".tga": "Targa"},
}
"""Names of unsupported image formats, keyed by file extension in lower case."""
INVERTED = "dynamic_mask_"
"""File name prefix of instant-ngp masks. In these masks, black marks the pixels to use."""
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
"""Operation that undoes each EXIF orientation. Orientations from 5 on swap width and height."""
OPAQUE = 250  # Minimum alpha (0 to 255) of an opaque pixel. The value allows for rounding errors.
UNREADABLE = (Exception,)  # Pillow decoders may raise exceptions of any type for invalid files.
FORMATS = tuple(name.upper() for name in SUPPORTED if name != "HEIC")
"""Formats that image files may have, independent of their names. Pillow would read some other
formats with external programs: Ghostscript would execute a PostScript file."""
HEIF_CONTENT = re.compile(rb"....ftyp(hei[cxms]|hev[cm]|mif1|msf1)", re.DOTALL)
"""First bytes of HEIF images: a box of the type `ftyp` with the brand (ISO/IEC 23008-12)."""
LARGE_PIXELS, MAX_PIXELS_PER_BYTE = 2**26, 100
"""Images with more than LARGE_PIXELS pixels and more pixels per byte of the file are refused.
Photos have about ten pixels per byte; the header of a tiny file may claim 30,000x30,000 pixels."""


_limit = Lock()  # Held while Pillow's limit for the number of pixels is suspended.


class Photo(NamedTuple):
    """Image file with the contents of its header: width and height in pixels of the upright image,
    presence of an alpha channel, EXIF orientation (1 to 8), and whether the image has no colors."""

    path: Path
    width: int
    height: int
    has_alpha: bool
    orientation: int = 1
    is_gray: bool = False

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the upright image."""
        return self.width, self.height

    @property
    def stored_size(self) -> tuple[int, int]:
        """Width and height of the image as stored."""
        return (self.height, self.width) if self.orientation >= 5 else self.size


def is_image(name: str) -> bool:
    """Return whether `name` is the file name of an image. Hidden files are not images."""
    return name.lower().endswith(EXTENSIONS) and not name.startswith(".")


def image_files(folder: Path) -> list[Path]:
    """Return the images in a folder in name order, or nothing if the folder does not exist."""
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    return [path for path in files if is_image(path.name)]


def is_unsupported(name: str) -> bool:
    """Return whether `name` is the file name of an image in an unsupported format."""
    return Path(name).suffix.lower() in UNSUPPORTED and not name.startswith(".")


def unsupported(path: Path, count: int = 1) -> InputError:
    """Return the error for `count` images in the unsupported format of `path`."""
    extension = path.suffix.lower()
    images = f"{path} is" if count == 1 else f"{count} images such as {path} are"
    return InputError(
        f"{images} in the format {UNSUPPORTED[extension]} ({extension}), which is not supported: "
        "convert to PNG or JPEG in sRGB, with the same file name"
    )


def inspect(path: Path) -> Photo:
    """Read the header of an image file."""
    with opened(path) as image:
        width, height = image.size
        orientation = orientation_of(image)
        if orientation >= 5:
            width, height = height, width
        is_gray = image.mode in GRAY_MODES or image.mode.startswith("I")
        return Photo(path, width, height, has_alpha(image), orientation, is_gray)


def inspect_all(files: Mapping[int, Path]) -> dict[int, Photo]:
    """Read the headers of image files, keyed by number."""
    with ThreadPoolExecutor() as pool:
        return dict(zip(files, pool.map(inspect, files.values()), strict=True))


def same_aspect(size: tuple[int, int], other: tuple[int, int]) -> bool:
    """Return whether two sizes (width, height) have the same aspect ratio, up to rounding to whole
    pixels."""
    # Halving an odd size loses up to a pixel per side, so aspect ratios may differ slightly.
    return abs(other[0] * size[1] - other[1] * size[0]) <= sum(size)


def are_cut_out(paths: Sequence[Path]) -> bool:
    """Decode the first, the middle, and the last image, and return whether the alpha of any pixel
    is below OPAQUE, as of an object that is cut out. An alpha channel is not sufficient, because
    some programs write opaque alpha to every image."""
    for path in {*paths[:1], *paths[len(paths) // 2 :][:1], *paths[-1:]}:
        with opened(path) as image:
            alpha = image.convert("RGBA").getchannel("A") if has_alpha(image) else None
            if alpha is not None and np.asarray(alpha).min() < OPAQUE:
                return True
    return False


def decode(
    image: Path | UInt8Array, channels: int, name: str, reduce: int = 1, *, upright: bool = True
) -> UInt8Array:
    """Decode an image file or pixels to uint8 (h, w, channels). Downscaled large files are cached.

    Args:
        channels: 3 or 4. Images without alpha get alpha 255. With 3, images with alpha are refused.
        name: Name of the image for error messages.
        reduce: Downscaling factor. Blocks of `reduce` x `reduce` pixels are averaged, starting in
            the top left corner; incomplete blocks are dropped.
        upright: Whether to apply the EXIF orientation.
    """
    cached = cached_path(image, reduce, upright)
    pixels = None if cached is None else read_cached(cached)
    if pixels is None:
        pixels = decode_reduced(image, name, reduce, upright=upright)
        if cached is not None:
            write_cached(cached, pixels)
    if pixels.shape[2] > channels:
        found = f"image {name} has an alpha channel, but the other images have none"
        raise InputError(f"{found}; convert it to RGB")
    if pixels.shape[2] < channels:
        opaque = np.full((*pixels.shape[:2], 1), 255, np.uint8)
        return np.concatenate([pixels, opaque], axis=2)
    return pixels


def decode_mask(path: Path, *, upright: bool = True) -> BoolArray:
    """Decode a mask to a boolean array (h, w), True for the pixels to use."""
    level = decode(path, 4, str(path), upright=upright)[..., :3].max(axis=2)
    return level == 0 if path.name.startswith(INVERTED) else level > 127


def decode_reduced(
    image: Path | UInt8Array, name: str, reduce: int = 1, *, upright: bool = True
) -> UInt8Array:
    """Decode an image like `decode`, but keep its number of channels."""
    pixels = _decode_file(image, upright) if isinstance(image, Path) else image
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] not in (3, 4):
        given = f"{pixels.dtype} {pixels.shape}"
        raise InputError(f"image {name} is {given}; expected uint8 (h, w, 3 or 4)")
    if reduce > 1:
        whole_image = Image.fromarray(pixels)
        whole = whole_image.width // reduce * reduce, whole_image.height // reduce * reduce
        pixels = np.asarray(whole_image.reduce(reduce, (0, 0, *whole)))
    return pixels


class UnreadableError(InputError):
    """Exception for an image file that cannot be decoded."""


@contextmanager
def opened(path: Path, formats: tuple[str, ...] = FORMATS) -> Iterator[Image.Image]:
    """Context manager that opens an image file. The content of the file determines its format, and
    not its name: messengers and cloud services store HEIF images under the name of a JPEG file.

    Args:
        path: Image file.
        formats: Pillow's names of the accepted formats.

    Raises:
        InputError: If the name or the content belongs to an unsupported format, or if HEIF images
            require the extra `capture`.
        UnreadableError: If the file is not an image, is damaged, or has an implausible size, also
            if this is found within the context.
    """
    if is_unsupported(path.name):
        raise unsupported(path)
    try:
        with path.open("rb") as file:
            is_heif = HEIF_CONTENT.match(file.read(12)) is not None
        if is_heif:
            needed("pillow_heif", "capture", f"{path.name} needs").register_heif_opener()
        with _open(path, (*formats, "HEIF") if is_heif else formats) as image:
            _refuse_bomb(image, path)
            yield image
    except UNREADABLE as error:
        if isinstance(error, InputError):
            raise
        reason = " ".join(str(error).split())  # Messages of libheif end with a line break.
        text = f"{path} is not a readable image: {reason}; replace or remove it"
        raise UnreadableError(text) from error


def _open(path: Path, formats: tuple[str, ...]) -> Image.Image:
    """Open an image without Pillow's limit for the number of pixels, which photos of current phones
    exceed. `_refuse_bomb` has a limit that depends on the size of the file."""
    with _limit:
        limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
        try:
            return Image.open(path, formats=formats)
        finally:
            Image.MAX_IMAGE_PIXELS = limit


def _refuse_bomb(image: Image.Image, path: Path) -> None:
    """Raise `InputError` if the file is too small for the image size in its header."""
    pixels, size = image.width * image.height, path.stat().st_size
    if pixels > max(LARGE_PIXELS, MAX_PIXELS_PER_BYTE * size):
        found = f"{path} has only {size} bytes for {image.width}x{image.height} pixels"
        raise UnreadableError(f"{found}, which is not plausible for a photo; replace or remove it")


def orientation_of(image: Image.Image) -> int:
    """Return the EXIF orientation (1 to 8) of an opened image."""
    # For PNG, Pillow decodes the whole image to find EXIF after the pixels, where it is very rare.
    if image.format == "PNG" and not {"exif", "Raw profile type exif"} & image.info.keys():
        return 1
    orientation = image.getexif().get(ORIENTATION_TAG, 1)
    return orientation if orientation in UPRIGHT else 1


def _decode_file(path: Path, upright: bool, side: int | None = None) -> UInt8Array:
    with opened(path) as image:
        transpose = UPRIGHT.get(orientation_of(image)) if upright else None
        if image.mode == "F":
            raise InputError(f"{path} contains floating-point pixels; convert it to 8 or 16 bits")
        if side is not None:
            image.draft("RGB", (side, side))  # JPEG files are decoded at a reduced size.
        pixels = in_srgb(image, path)
        pixels = pixels if transpose is None else pixels.transpose(transpose)
        if side is not None:
            pixels.thumbnail((side, side))
        return np.asarray(pixels)


def decode_thumbnail(image: Path | UInt8Array, side: int, *, upright: bool = True) -> UInt8Array:
    """Decode an image, reduced to at most `side` pixels per side, to uint8 (h, w, 3 or 4)."""
    if isinstance(image, Path):
        return _decode_file(image, upright, side)
    pixels = Image.fromarray(image)
    pixels.thumbnail((side, side))
    return np.asarray(pixels)


ALPHA_MODES = ("RGBA", "RGBa", "LA", "La", "PA")
GRAY_MODES = ("1", "L", "LA", "La")
COLOR_SPACE_TAG, INTEROPERABILITY_IFD, ADOBE_RGB = 0xA001, 0xA005, (2, "R03")
"""EXIF tags of the color space, and their values for Adobe RGB (DCF 2.0)."""
SRGB_GAMMA, GAMMA_WITHIN = 1 / 2.2, 0.02
"""Value of the PNG chunk gAMA for sRGB, and its maximum rounding error."""
SRGB_CODES = (1, 2)  # Codes of the color primaries of sRGB, and of unspecified ones (ITU-T H.273).
EXIF_FORMATS = ("JPEG", "MPO", "TIFF", "WEBP")
MAX_ROUNDING = 3  # Maximum difference, of 0 to 255, between colors of two profiles of sRGB.
UNUSABLE = (ImageCms.PyCMSError, OSError, ValueError, TypeError)

_warned: set[tuple[str, Path]] = set()  # Problems that have been logged, with their folders.


def has_alpha(image: Image.Image) -> bool:
    """Return whether an image has an alpha channel or a transparent color."""
    return image.mode in ALPHA_MODES or "transparency" in image.info


def is_srgb(image: Image.Image) -> bool:
    """Return whether an image has no ICC profile, or a profile that does not change sRGB colors."""
    content = image.info.get("icc_profile")
    return not content or _keeps_srgb(content)


@lru_cache(maxsize=16)
def _keeps_srgb(content: bytes) -> bool:
    """Return whether the conversion of colors and grays from an ICC profile to sRGB only has
    rounding errors. The names of profiles are not reliable."""
    try:
        profile = ImageCms.ImageCmsProfile(io.BytesIO(content))
        if profile.profile.xcolor_space.strip() == "GRAY":
            probe = Image.fromarray(np.arange(256, dtype=np.uint8)[None])
        else:
            probe = Image.fromarray(np.mgrid[:9, :9, :9].reshape(3, 1, -1).T.astype(np.uint8) * 31)
        change = np.asarray(probe.convert("RGB"), int) - np.asarray(_transformed(probe, profile))
        return int(np.abs(change).max()) <= MAX_ROUNDING
    except UNUSABLE:
        return False


def in_srgb(image: Image.Image, path: Path) -> Image.Image:
    """Return an image in the mode RGB, or RGBA if it has an alpha channel, converted from its ICC
    profile to sRGB. If its color space is known but cannot be converted, log a warning, once for
    each folder. `path` is the image file, for this message."""
    if is_srgb(image):
        if problem := _other_space(image):
            _warn(problem, path)
        return _plain(image)
    try:
        profile = ImageCms.ImageCmsProfile(io.BytesIO(image.info["icc_profile"]))
        space = profile.profile.xcolor_space.strip()
        if space == "RGB" and image.mode != "CMYK":
            return _transformed(_plain(image), profile)
        if space == "CMYK" and image.mode == "CMYK":
            return _transformed(image, profile)
        if space == "GRAY" and (image.mode in GRAY_MODES or image.mode.startswith("I")):
            plain = _plain(image)
            gray = _transformed(plain.getchannel("R"), profile)
            if plain.mode == "RGBA":
                gray.putalpha(plain.getchannel("A"))
            return gray
        problem = f"an ICC profile for {space} although its pixels are {image.mode}"
    except UNUSABLE as error:
        problem = f"an ICC profile that cannot be used ({error})"
    _warn(problem, path)
    return _plain(image)


def _transformed(image: Image.Image, profile: ImageCms.ImageCmsProfile) -> Image.Image:
    result = ImageCms.profileToProfile(
        image,
        profile,
        ImageCms.createProfile("sRGB"),
        renderingIntent=ImageCms.Intent.RELATIVE_COLORIMETRIC,
        outputMode="RGBA" if image.mode == "RGBA" else "RGB",
        flags=ImageCms.Flags.BLACKPOINTCOMPENSATION,
    )
    assert result is not None  # The result is None only for a conversion in place.
    result.info.pop("icc_profile", None)
    return result


def _plain(image: Image.Image) -> Image.Image:
    """Return the image as RGB or RGBA, without a conversion of its color space."""
    if image.mode.startswith("I"):
        # Pillow's conversion clips at 255, so almost every pixel would become white.
        gray = np.clip(np.asarray(image), 0, 2**16 - 1).astype(np.uint32)
        return Image.fromarray(((gray + 128) // 257).astype(np.uint8)).convert("RGB")
    mode = "RGBA" if has_alpha(image) else "RGB"
    return image if image.mode == mode else image.convert(mode)


def _other_space(image: Image.Image) -> str:
    """Describe the color space of an image without an ICC profile, or return "" for sRGB."""
    if image.mode == "CMYK":
        return "CMYK pixels without an ICC profile"
    gamma = image.info.get("gamma", SRGB_GAMMA)
    if "srgb" not in image.info and abs(gamma - SRGB_GAMMA) > GAMMA_WITHIN:
        return f"the gamma {gamma:g} instead of {SRGB_GAMMA:.3g}"
    codes = image.info.get("nclx_profile") or {}
    if not image.info.get("icc_profile") and codes.get("color_primaries", 1) not in SRGB_CODES:
        return f"the color primaries {codes['color_primaries']} of ITU-T H.273"
    if image.format in EXIF_FORMATS and not image.info.get("icc_profile"):
        exif = image.getexif()
        spaces = [exif.get_ifd(0x8769).get(COLOR_SPACE_TAG)]
        with suppress(KeyError):  # Pillow before 13 raises it if the directory is missing.
            spaces.append(exif.get_ifd(INTEROPERABILITY_IFD).get(1))
        if any(space in ADOBE_RGB for space in spaces):
            return "the color space Adobe RGB in its EXIF data but no ICC profile"
    return ""


def _warn(problem: str, path: Path) -> None:
    if (problem, path.parent) not in _warned:
        _warned.add((problem, path.parent))
        log.warning(
            f"the image {path} has {problem}; its colors are read as sRGB and may be wrong: "
            "convert the images to sRGB"
        )
