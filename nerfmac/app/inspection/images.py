"""Detection of images that are blurred or copies of other images, and formatting of findings as
text."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from nerfmac.app.capture.video import laplacian_variance
from nerfmac.app.scenes import Frame, Scene
from nerfmac.common import Float32Array

SIZE = 640  # Maximum length of the longer side of a measured image in pixels.
THUMBNAIL = (32, 32)
BLURRED = 0.2  # Sharpness of a blurred image, relative to the median over all images.
ALIKE = 1.0  # Mean difference of gray values (0 to 255) below which two thumbnails are equal.


class ImageMeasures(NamedTuple):
    """Sharpness and thumbnail of an image."""

    sharpness: float  # Variance of the Laplacian.
    thumbnail: Float32Array  # Gray image with the size THUMBNAIL.
    is_kept: bool = True  # Whether the mask does not exclude all pixels.


def measure_images(frames: Sequence[Frame], bar: Any) -> list[ImageMeasures]:
    """Measure the sharpness of each frame's image, and update a tqdm progress bar."""
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
    sharpness = laplacian_variance(np.asarray(image, np.float32))
    small = np.asarray(image.resize(THUMBNAIL, Image.Resampling.BOX), np.float32)
    return ImageMeasures(sharpness, small, mask is None or bool(mask.any()))


def image_findings(names: Sequence[str], measures: Sequence[ImageMeasures]) -> list[str]:
    """Report images that are blurred or equal to an earlier image."""
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
    copies = summed_up(copies, "are the same as an earlier one")
    return summed_up(blurred, "are blurred") + copies


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
