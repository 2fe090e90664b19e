"""Detection of images that are blurred or copies of other images, comparison of the depth images of
different views, and formatting of findings as text."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image
from tqdm.auto import tqdm

from nerfmac.app.capture.video import laplacian_variance
from nerfmac.app.scenes import Frame, Scene, measured_depth
from nerfmac.app.scenes.depth_images import stored_values
from nerfmac.common import Float32Array
from nerfmac.geometry import trusted

SIZE = 640  # Maximum length of the longer side of a measured image in pixels.
THUMBNAIL = (32, 32)
BLURRED = 0.2  # Sharpness of a blurred image, relative to the median over all images.
ALIKE = 1.0  # Mean difference of gray values (0 to 255) below which two thumbnails are equal.

MAX_STEP, REPEATED = 0.01, 10
"""Steps between the values of quantized depth images are larger than this fraction of the median
depth, and a value occurs this number of times on average."""


class ImageMeasures(NamedTuple):
    """Sharpness and thumbnail of an image."""

    sharpness: float  # Variance of the Laplacian.
    thumbnail: Float32Array  # Gray image with the size THUMBNAIL.
    is_kept: bool = True  # Whether the mask does not exclude all pixels.


def measure_images(frames: Sequence[Frame], *, progress: bool) -> list[ImageMeasures]:
    """Measure the sharpness of each frame's image."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        measured = pool.map(_measure, frames)
        return list(tqdm(measured, "images", len(frames), disable=not progress))


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
    """Report images that are blurred, equal to an earlier image, or excluded by their masks."""
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
    kept = zip(names, (image.is_kept for image in measures), strict=True)
    masked = [f"{name} is excluded by its mask" for name, is_kept in kept if not is_kept]
    by_masks = "are excluded completely by their masks, in which black marks excluded pixels"
    return [
        *summed_up(blurred, "are blurred"),
        *summed_up(copies, "are the same as an earlier one"),
        *summed_up(masked, by_masks),
    ]


def depth_report(scene: Scene) -> tuple[list[str], list[str]]:
    """Return facts and findings about the depth images of a scene, or nothing if it has none."""
    frames = [frame for part in scene.splits.values() for frame in part]
    unique = list({id(frame): frame for frame in frames if frame.depth}.values())
    if not unique:
        return [], []
    chosen, views = unique[:: -(-len(unique) // measured_depth.MAX_VIEWS)], []
    for frame in chosen:
        decoded = frame.decode_depth()
        assert decoded is not None
        lens, pose = frame.camera.lens, frame.camera.pose
        views.append(measured_depth.Measured(lens, pose, *trusted(*decoded)))
    known = np.concatenate([view.depth[view.confidence > 0] for view in views])
    share = np.mean([(view.confidence > 0).mean() for view in views])
    height, width = views[0].depth.shape
    fact = f"depth      {len(unique)} images of {width}x{height} pixels, {share:.0%} known"
    if not len(known):
        return [fact], [
            "no depth in the depth images is known, confident, and in the range of the sensor; "
            "their unit may be wrong"
        ]
    unit = scene.placement.scale
    low, high = np.quantile(known, (0.01, 0.99)) / unit
    fact += f", from {low:.3g} to {high:.3g} in file units"
    findings, agreement = _quantized(chosen), measured_depth.agreement_of(views, views).share
    if not np.isnan(agreement):
        fact += f"; {agreement:.0%} of the depths agree with other views"
    if agreement < measured_depth.MIN_AGREEMENT:
        findings.append(
            f"only {agreement:.0%} of the depths agree within {measured_depth.AGREEMENT:.0%} with "
            "the depth images of other views; the camera poses, or the axes or the unit of the "
            "depth images, are wrong: correct them, or ignore the depth images with --no-depth"
        )
    return [fact], findings


def _quantized(frames: list[Frame]) -> list[str]:
    """Report depth images with large steps between their values, as of 8 bits."""
    found = [stored_values(frame.depth) for frame in frames if frame.depth]
    known = np.concatenate([values[values > 0] for values in found])
    levels = np.unique(known)
    if len(levels) < 2 or REPEATED * len(levels) > len(known):
        return []
    step, middle = float(np.median(np.diff(levels))), float(np.median(known))
    if step <= MAX_STEP * middle:
        return []
    return [
        f"the depth images contain only {len(levels)} different values, in steps of "
        f"{step / middle:.1%} of the median depth, as of images with 8 bits; store depth with 16 "
        "bits, or ignore it with --no-depth"
    ]


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
