"""Findings about folds, without feature matches: successive images look alike, but their cameras
look in very different directions.

`capture.fold_check` explains folds and tells them from rigs of fixed cameras.
"""

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

FEWEST = 12
"""Smallest number of images whose order can be recognized as a walk."""
NEAR = 30.0
"""Two successive images are near neighbors if their viewing axes differ by fewer degrees."""
ALIKE = 0.1
"""The two images at a leap look alike if their correlation reaches this quantile of the
correlations of near neighbors."""


def fold_findings(
    names: Sequence[str],
    cameras: Sequence[Camera],
    thumbnail: Callable[[int], npt.NDArray[np.floating]],
) -> list[str]:
    """Lines about folded pairs of images that follow each other by name.

    `thumbnail(index)` returns a image, all of one size; it is called only if the cameras do
    not decide. Empty for fewer than `FEWEST` images, and if the order of names is no walk.
    """
    order = sorted(range(len(names)), key=lambda index: counted(names[index]))
    if len(order) < FEWEST:
        return []
    axes = np.stack([cameras[index].pose[:, 2] for index in order]).astype(np.float64)
    apart = angles(axes)
    step = np.diagonal(apart, 1)
    if (step < NEAR).mean() < WALKED:
        return []

    @cache
    def likeness() -> npt.NDArray[np.float64]:
        small = normalized([thumbnail(index) for index in order])
        return small @ small.T

    lines = [
        f"{names[order[leap]]} and {names[order[leap + 1]]} follow each other and look alike, but "
        f"their cameras look {step[leap]:.0f} degrees apart: a thing that is the same from two "
        "sides may be folded onto itself"
        for leap in folded_leaps(apart, likeness).tolist()
        if likeness()[leap, leap + 1] >= np.quantile(np.diagonal(likeness(), 1)[step < NEAR], ALIKE)
    ]
    return summed_up(lines, "and the next one look alike, but their cameras are torn apart")


def folds_of_training(scene: Scene) -> list[str]:
    """`fold_findings` of a scene's training images, from their pixels on the device."""
    views = scene.views("train", progress=False)

    def thumbnail(index: int) -> npt.NDArray[np.floating]:
        image = views.image(index)
        step = max(min(image.shape[:2]) // (4 * THUMBNAIL[0]), 1)
        gray = Image.fromarray(np.array(image[::step, ::step, :3])).convert("L")
        return np.asarray(gray.resize(THUMBNAIL, Image.Resampling.BOX), np.float32)

    frames = scene.splits["train"]
    cameras = [frame.camera for frame in frames]
    return fold_findings(shown_names(scene, frames), cameras, thumbnail)
