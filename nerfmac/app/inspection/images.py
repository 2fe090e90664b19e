"""Findings about images: blur, bad exposure, and copies of another image."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image

from nerfmac.app.capture.frame_selection import laplacian_variance
from nerfmac.app.inspection.findings import summed_up
from nerfmac.app.scenes import Frame
from nerfmac.app.scenes.image_cache import decode_once

SIZE = 640
"""Longer side, in pixels, to which larger images are reduced before they are measured."""
THUMBNAIL = (32, 32)
BLURRED = 0.2
"""Fraction of the median sharpness below which a image is blurred."""
ALIKE = 1.0
"""Mean difference of the values (0 to 255) of two thumbnails below which they count as one
image."""
DARK, BRIGHT = 25.0, 235.0
"""Mean brightness (0 to 255), backdrop left out, outside which a image is too dark or bright."""
CLIPPED = 0.35
"""Fraction of white or black pixels above which a image is badly exposed; if most images have
more, they are a backdrop."""
UNLIKE = 45.0
"""A image is reported if its mean brightness (0 to 255) differs by more than this from the median
over all images."""


class ImageMeasures(NamedTuple):
    """Measures of one image."""

    sharpness: float  # variance of the Laplacian
    brightness: float  # mean, from 0 to 255
    white: float  # fraction of white pixels
    black: float  # fraction of black pixels
    thumbnail: npt.NDArray[np.float32]  # gray, of size THUMBNAIL


def measure_images(frames: Sequence[Frame], bar: Any) -> list[ImageMeasures]:
    """Measure each frame's image; `bar` (tqdm) counts them. Raises InputError for broken ones."""
    measures = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for measured in pool.map(_measure, frames):
            measures.append(measured)
            bar.update()
    return measures


def _measure(frame: Frame) -> ImageMeasures:
    pixels = decode_once(frame.image, 4, frame.name, frame.reduce, upright=frame.is_upright)
    over_white = Image.new("RGBA", pixels.shape[1::-1], "white")
    over_white.alpha_composite(Image.fromarray(pixels))
    image = over_white.convert("L")
    image.thumbnail((SIZE, SIZE), Image.Resampling.BOX)
    gray = np.asarray(image, np.float32)
    shown = gray
    if pixels[..., 3].min() < 255:  # a transparent background says nothing about exposure
        alpha = Image.fromarray(pixels[..., 3]).resize(image.size, Image.Resampling.BOX)
        inside = gray[np.asarray(alpha) > 250]
        shown = inside if len(inside) else gray
    small = np.asarray(image.resize(THUMBNAIL, Image.Resampling.BOX), np.float32)
    white, black = float((shown >= 254).mean()), float((shown <= 1).mean())
    return ImageMeasures(laplacian_variance(gray), float(shown.mean()), white, black, small)


def normalized(thumbnails: Sequence[npt.NDArray[np.floating]]) -> npt.NDArray[np.float64]:
    """The thumbnails as rows (n, pixels) of mean 0 and length 1: products are correlations."""
    rows = np.stack([thumbnail.ravel() for thumbnail in thumbnails]).astype(np.float64)
    rows -= rows.mean(axis=1, keepdims=True)
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


def image_findings(names: Sequence[str], measures: Sequence[ImageMeasures]) -> list[str]:
    """Lines about images that are blurred, badly exposed or the same as an earlier one."""
    median = float(np.median([image.sharpness for image in measures]))
    blurred = [
        f"{name} is blurred: {image.sharpness / median:.0%} of the usual sharpness"
        for name, image in zip(names, measures, strict=True)
        if image.sharpness < BLURRED * median
    ]
    small = np.stack([image.thumbnail.ravel() for image in measures])
    copies = []
    for index in range(1, len(names)):
        apart = np.abs(small[:index] - small[index]).mean(axis=1)
        first = int(apart.argmin())
        if apart[first] < ALIKE:
            copies.append(f"{names[index]} shows the same as {names[first]}")
    return [
        *summed_up(blurred, "are blurred"),
        *summed_up(_exposures(names, measures), "are badly exposed"),
        *summed_up(copies, "show the same as an earlier one"),
    ]


def _exposures(names: Sequence[str], measures: Sequence[ImageMeasures]) -> list[str]:
    """A line for each badly exposed image; a backdrop that most images have does not count."""
    table = [(image.white, image.black, image.brightness) for image in measures]
    white, black, brightness = np.median(table, 0).tolist()
    backdrop = white * (white > CLIPPED), black * (black > CLIPPED)
    faults = [_exposure_fault(image, backdrop, brightness) for image in measures]
    return [f"{name} is {fault}" for name, fault in zip(names, faults, strict=True) if fault]


def _exposure_fault(image: ImageMeasures, backdrop: tuple[float, float], median: float) -> str:
    """The fault of a image's exposure in words; empty if it is well exposed.

    `backdrop` holds the usual fractions of white and black pixels, 0 up to `CLIPPED`; `median` is
    the median brightness of all images.
    """
    white, black = min(image.white, backdrop[0]), min(image.black, backdrop[1])
    inside = (image.brightness - 255.0 * white) / max(1.0 - white - black, 0.01)
    if inside < DARK:
        return f"too dark: {inside:.0f} of 255 in the mean"
    if inside > BRIGHT:
        return f"too bright: {inside:.0f} of 255 in the mean"
    if image.white - white > CLIPPED:
        return f"overexposed: {image.white:.0%} of it is white"
    if image.black - black > CLIPPED:
        return f"underexposed: {image.black:.0%} of it is black"
    if abs(image.brightness - median) > UNLIKE:
        than = "brighter" if image.brightness > median else "darker"
        shown = f"{image.brightness:.0f} of 255 in the mean, not {median:.0f}"
        return f"{than} than the others: {shown}"
    return ""
