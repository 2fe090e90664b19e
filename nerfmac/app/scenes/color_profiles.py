"""Conversion of opened images to 8-bit sRGB, with the ICC profiles that image files contain. Photos
of phones and cameras often have the profile Display P3 or Adobe RGB."""

import io
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import numpy as np
from PIL import Image, ImageCms

from nerfmac.common import log

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
