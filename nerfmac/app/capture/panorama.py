"""Recognition of 360-degree images and videos, which are not perspective images, by the file
extension, the metadata, or the content."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from nerfmac.app.capture.findings import RefusedError
from nerfmac.app.scenes.images import opened

EXTENSIONS = (".insv", ".insp", ".360")  # Of files of 360-degree cameras, in lower case.
TAGS = (b"GPano:ProjectionType", b"sv3d", b"SphericalVideo", b"GSpherical")
"""Phrases of the metadata of spherical photos (Photo Sphere XMP) and videos (Spherical Video V1 and
V2)."""
SEARCHED = 2**20  # Number of bytes at the beginning and at the end of a file that are searched.
SIZE = (128, 64)  # Width and height in pixels of the reduced images that are compared.
MIN_CONTRAST = 5.0  # Minimum standard deviation of the gray values (0 to 255) of an edge column.
MAX_STEP, MAX_DIFFERENCE = 2.0, 0.6
"""Maximum difference of the left and right edges of a panorama, relative to the difference of
adjacent columns and to the difference of columns that are half a width apart."""


def refuse_panoramas(source: Path, images: Sequence[Path]) -> None:
    """Raise `RefusedError` if most images of a capture are equirectangular.

    Args:
        source: Video, or folder of photos.
        images: Images of the capture. Their metadata may have been removed.

    Raises:
        RefusedError: If the video or most photos have spherical metadata, or if most images have
            the shape 2:1 and the same content at the left and right edges.
    """
    files = [source] if source.is_file() else list(images)
    is_tagged = 2 * sum(map(has_spherical_tag, files)) > len(files)
    if is_tagged or 2 * sum(map(is_panorama, images)) > len(images):
        raise _refusal(source)


def refuse_panorama_file(path: Path) -> None:
    """Raise `RefusedError` if `path` is a file of a 360-degree camera. ffmpeg and Pillow cannot
    read most of these files."""
    if path.suffix.lower() in EXTENSIONS and path.is_file():
        raise _refusal(path)


def _refusal(path: Path) -> RefusedError:
    return RefusedError(
        f"{path} contains 360-degree images, but nerfmac requires perspective images; cut each "
        "panorama into perspective views, for example with the reframing of the camera's app, and "
        "capture these views"
    )


def has_spherical_tag(path: Path) -> bool:
    """Return whether the metadata of a photo or video declare a spherical projection."""
    with path.open("rb") as file:
        content = file.read(SEARCHED)
        file.seek(max(path.stat().st_size - SEARCHED, 0))
        content += file.read(SEARCHED)
    return any(tag in content for tag in TAGS)


def is_panorama(path: Path) -> bool:
    """Return whether an image has the shape 2:1 and continues from its right to its left edge."""
    with opened(path) as image:
        if image.width != 2 * image.height:
            return False
        gray = np.asarray(image.convert("L").resize(SIZE, Image.Resampling.BOX), np.float64)
    edges = np.abs(gray[:, 0] - gray[:, -1]).mean()
    step = np.median(np.abs(np.diff(gray, axis=1)).mean(axis=0))
    half = np.median(np.abs(gray - np.roll(gray, SIZE[0] // 2, axis=1)).mean(axis=0))
    has_content = min(gray[:, 0].std(), gray[:, -1].std()) > MIN_CONTRAST
    return bool(has_content and edges < min(MAX_STEP * step, MAX_DIFFERENCE * half))
