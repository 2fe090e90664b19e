"""Detection of consecutive images that look similar although their cameras look in very different
directions, which indicates ambiguous matches (see `capture.fold_check`). Thumbnails are compared,
without feature matching."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
from PIL import Image

from nerfmac.app.capture.fold_check import WALKED, angles, folded_leaps
from nerfmac.app.inspection.findings import shown_names, summed_up
from nerfmac.app.inspection.images import THUMBNAIL, normalized
from nerfmac.app.scenes import Scene
from nerfmac.common.files import counted
from nerfmac.geometry.cameras import Camera

MIN_IMAGES = 12
"""An order of capture is recognized only if there are at least this number of images."""
NEAR = 30.0  # Maximum angle in degrees between the viewing axes of neighboring images.
ALIKE = 0.1  # Quantile of the correlations between neighboring images that similar images reach.


def fold_findings(
    names: Sequence[str],
    cameras: Sequence[Camera],
    thumbnail: Callable[[int], npt.NDArray[np.floating]],
) -> list[str]:
    """Report ambiguous pairs of images that are consecutive in name order.

    If there are fewer than `MIN_IMAGES` images, or if the name order is not the order of capture,
    the result is empty. `thumbnail` returns the thumbnail of the image with a given index. All
    thumbnails have the same size. The function is called only if the cameras alone do not exclude
    ambiguous matches.
    """
    order = sorted(range(len(names)), key=lambda index: counted(names[index]))
    if len(order) < MIN_IMAGES:
        return []
    axes = np.stack([cameras[index].pose[:, 2] for index in order]).astype(np.float64)
    difference = angles(axes)
    step = np.diagonal(difference, 1)
    if (step < NEAR).mean() < WALKED:
        return []

    @cache
    def likeness() -> npt.NDArray[np.float64]:
        small = normalized([thumbnail(index) for index in order])
        return small @ small.T

    lines = [
        f"{names[order[leap]]} and {names[order[leap + 1]]} are successive and look alike, but "
        f"their cameras look {step[leap]:.0f} degrees apart: an object that looks the same from "
        "two sides may have been reconstructed incorrectly"
        for leap in folded_leaps(difference, likeness).tolist()
        if likeness()[leap, leap + 1] >= np.quantile(np.diagonal(likeness(), 1)[step < NEAR], ALIKE)
    ]
    return summed_up(lines, "look like the next one, but their cameras are inconsistent")


def folds_of_training(scene: Scene) -> list[str]:
    """Return the `fold_findings` of the training images of a scene. The thumbnails are computed
    from the decoded images on the device."""
    views = scene.views("train", progress=False)

    def thumbnail(index: int) -> npt.NDArray[np.floating]:
        image = views.image(index)
        step = max(min(image.shape[:2]) // (4 * THUMBNAIL[0]), 1)
        gray = Image.fromarray(np.array(image[::step, ::step, :3])).convert("L")
        return np.asarray(gray.resize(THUMBNAIL, Image.Resampling.BOX), np.float32)

    frames = scene.splits["train"]
    cameras = [frame.camera for frame in frames]
    return fold_findings(shown_names(scene, frames), cameras, thumbnail)
