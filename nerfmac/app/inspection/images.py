"""Detection of images that are blurred, poorly exposed, or copies of other images, and formatting
of findings as text."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image

from nerfmac.app.capture.video import laplacian_variance
from nerfmac.app.scenes import Frame, Scene

SIZE = 640  # Maximum length of the longer side of a measured image in pixels.
THUMBNAIL = (32, 32)
BLURRED = 0.2  # Sharpness of a blurred image, relative to the median over all images.
ALIKE = 1.0  # Mean difference of gray values (0 to 255) below which two thumbnails are equal.
DARK, BRIGHT = 25.0, 235.0
"""Range of the mean brightness (0 to 255) of well exposed images, without the backdrop."""
CLIPPED = 0.35
"""Maximum fraction of white or black pixels in a well exposed image. If the median over all images
is larger, these pixels are a backdrop."""
UNLIKE = 45.0
"""Maximum difference of the mean brightness (0 to 255) from the median over all images."""


class ImageMeasures(NamedTuple):
    """Sharpness, exposure, and thumbnail of an image."""

    sharpness: float  # Variance of the Laplacian.
    brightness: float  # Mean gray value, from 0 to 255.
    white: float  # Fraction of white pixels.
    black: float  # Fraction of black pixels.
    thumbnail: npt.NDArray[np.float32]  # Gray image with the size THUMBNAIL.
    is_kept: bool = True  # Whether the mask does not exclude all pixels.


def measure_images(frames: Sequence[Frame], bar: Any) -> list[ImageMeasures]:
    """Measure the sharpness and exposure of each frame's image, and update a tqdm progress bar."""
    measures = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for measured in pool.map(_measure, frames):
            measures.append(measured)
            bar.update()
    return measures


def _measure(frame: Frame) -> ImageMeasures:
    pixels, mask = frame.decode(4)  # Also checks the mask, like training.
    over_white = Image.new("RGBA", pixels.shape[1::-1], "white")
    over_white.alpha_composite(Image.fromarray(pixels))
    image = over_white.convert("L")
    image.thumbnail((SIZE, SIZE), Image.Resampling.BOX)
    gray = np.asarray(image, np.float32)
    shown = gray
    if pixels[..., 3].min() < 255:  # A transparent background is irrelevant for exposure.
        alpha = Image.fromarray(pixels[..., 3]).resize(image.size, Image.Resampling.BOX)
        inside = gray[np.asarray(alpha) > 250]
        shown = inside if len(inside) else gray
    small = np.asarray(image.resize(THUMBNAIL, Image.Resampling.BOX), np.float32)
    white, black = float((shown >= 254).mean()), float((shown <= 1).mean())
    is_kept = mask is None or bool(mask.any())
    sharpness, brightness = laplacian_variance(gray), float(shown.mean())
    return ImageMeasures(sharpness, brightness, white, black, small, is_kept)


def normalized(thumbnails: Sequence[npt.NDArray[np.floating]]) -> npt.NDArray[np.float64]:
    """Return the thumbnails as rows (n, pixels) with a mean of 0 and a length of 1, so that the
    inner product of two rows is the correlation of the thumbnails."""
    rows = np.stack([thumbnail.ravel() for thumbnail in thumbnails]).astype(np.float64)
    rows -= rows.mean(axis=1, keepdims=True)
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


def image_findings(names: Sequence[str], measures: Sequence[ImageMeasures]) -> list[str]:
    """Report images that are blurred, poorly exposed, or equal to an earlier image."""
    median = float(np.median([image.sharpness for image in measures]))
    blurred = [
        f"{name} is blurred: {image.sharpness / median:.0%} of the median sharpness"
        for name, image in zip(names, measures, strict=True)
        if image.sharpness < BLURRED * median
    ]
    small = np.stack([image.thumbnail.ravel() for image in measures])
    copies = []
    for index in range(1, len(names)):
        difference = np.abs(small[:index] - small[index]).mean(axis=1)
        first = int(difference.argmin())
        if difference[first] < ALIKE:
            copies.append(f"{names[index]} is the same image as {names[first]}")
    return [
        *summed_up(blurred, "are blurred"),
        *summed_up(_exposures(names, measures), "are poorly exposed"),
        *summed_up(copies, "are the same as an earlier one"),
    ]


def _exposures(names: Sequence[str], measures: Sequence[ImageMeasures]) -> list[str]:
    """Return a line for each poorly exposed image, ignoring the white or black of a backdrop."""
    table = [(image.white, image.black, image.brightness) for image in measures]
    white, black, brightness = np.median(table, 0).tolist()
    backdrop = white * (white > CLIPPED), black * (black > CLIPPED)
    faults = [_exposure_fault(image, backdrop, brightness) for image in measures]
    return [f"{name} is {fault}" for name, fault in zip(names, faults, strict=True) if fault]


def _exposure_fault(image: ImageMeasures, backdrop: tuple[float, float], median: float) -> str:
    """Describe the exposure problem of an image. The text is empty if the image is well exposed.
    `backdrop` contains the median fractions of white and black pixels, or 0 where the fraction is
    at most `CLIPPED`. `median` is the median brightness of all images."""
    white, black = min(image.white, backdrop[0]), min(image.black, backdrop[1])
    inside = (image.brightness - 255.0 * white) / max(1.0 - white - black, 0.01)
    if inside < DARK:
        return f"too dark: mean {inside:.0f} of 255"
    if inside > BRIGHT:
        return f"too bright: mean {inside:.0f} of 255"
    if image.white - white > CLIPPED:
        return f"overexposed: {image.white:.0%} of the pixels are white"
    if image.black - black > CLIPPED:
        return f"underexposed: {image.black:.0%} of the pixels are black"
    if abs(image.brightness - median) > UNLIKE:
        than = "brighter" if image.brightness > median else "darker"
        shown = f"mean {image.brightness:.0f} of 255 instead of {median:.0f}"
        return f"{than} than the others: {shown}"
    return ""


MAX_LINES = 5  # Maximum number of findings of one kind that are listed individually.
EXAMPLES = 3
"""Number of examples that are listed if there are more than `MAX_LINES` findings of one kind."""


def summed_up(lines: Sequence[str], predicate: str) -> list[str]:
    """Return `lines`. If there are more than `MAX_LINES`, return one line "N images PREDICATE, such
    as: ..." instead."""
    if len(lines) <= MAX_LINES:
        return list(lines)
    return [f"{len(lines)} images {predicate}, such as: {'; '.join(lines[:EXAMPLES])}"]


def shown_names(scene: Scene, frames: Sequence[Frame]) -> list[str]:
    """Return the names of frames for findings: image paths relative to the scene folder, or frame
    names for images in memory. The names in scene files may be absolute paths from another
    machine."""
    paths = [frame.image for frame in frames if isinstance(frame.image, Path)]
    if not paths:
        return [frame.name for frame in frames]
    folders = {os.path.abspath(path.parent) for path in paths}
    if scene.path is not None:
        at = os.path.abspath(scene.path)
        folders.add(at if os.path.isdir(at) else os.path.dirname(at))
    root = os.path.commonpath(folders)
    return [
        Path(os.path.relpath(frame.image, root)).as_posix()
        if isinstance(frame.image, Path)
        else frame.name
        for frame in frames
    ]
