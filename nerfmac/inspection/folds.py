"""Cameras that are torn apart though their pictures follow each other and look alike.

So it is where a thing that looks the same from two sides was folded onto itself: the cameras of one
side then stand among those of the other, and the walk around it leaps. Rigs of fixed cameras leap
too, but they do not stand among each other, or their pictures look alike however far apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from PIL import Image

from nerfmac.capture.agreement import APART, WALKED
from nerfmac.common.files import counted
from nerfmac.geometry.cameras import Camera
from nerfmac.inspection.findings import shown_names, summed_up
from nerfmac.inspection.pictures import THUMBNAIL, normalised
from nerfmac.scenes import Scene

Array = npt.NDArray[np.float64]

FEWEST = 12
"""Pictures from which on their order can be told to be a walk."""
NEAR = 30.0
"""Degrees between the axes of neighbours, up to which they stand near; that is a walk's measure
here, where no matches are known."""
AMONG = 15.0
"""Degrees from a camera's axis to the nearest of another stretch of the walk, up to which it stands
among these."""
ALIKE = 0.1
"""Two pictures look alike if they correlate better than this part of the neighbours that are."""
BY_CHANCE = 0.9
"""They also have to look more alike than this part of all pictures that are as far apart."""


def fold_findings(
    names: Sequence[str],
    cameras: Sequence[Camera],
    thumbnail: Callable[[int], npt.NDArray[np.floating]],
) -> list[str]:
    """A line for each two pictures that follow each other by name, look alike, and are far apart.

    `thumbnail(index)` is a picture's, all of one size. Nothing is said where the order of names is
    no walk, or where the two stretches of the walk do not stand among each other.
    """
    order = sorted(range(len(names)), key=lambda index: counted(names[index]))
    if len(order) < FEWEST:
        return []
    sights = np.stack([cameras[index].pose[:, 2] for index in order]).astype(np.float64)
    step = np.degrees(np.arccos(np.clip((sights[1:] * sights[:-1]).sum(axis=1), -1, 1)))
    near, leaps = step < NEAR, np.flatnonzero(step > APART)
    if near.mean() < WALKED or not len(leaps):
        return []
    apart = np.degrees(np.arccos(np.clip(sights @ sights.T, -1, 1)))
    leaps = leaps[_are_among(apart, leaps)]
    if not len(leaps):
        return []
    small = normalised([thumbnail(index) for index in order])
    likeness = small @ small.T
    least = max(
        float(np.quantile(np.diagonal(likeness, 1)[near], ALIKE)),
        float(np.quantile(likeness[apart > APART], BY_CHANCE)),
    )
    lines = [
        f"{names[order[each]]} and {names[order[each + 1]]} follow each other and look alike, but "
        f"their cameras look {step[each]:.0f} degrees apart: a thing that is the same from two "
        "sides may be folded onto itself"
        for each in leaps
        if likeness[each, each + 1] >= least
    ]
    return summed_up(lines, "and the next one look alike, but their cameras are torn apart")


def folds_of_training(scene: Scene) -> list[str]:
    """`fold_findings` of a scene's training pictures, by their pixels on the device."""
    views = scene.views("train", progress=False)

    def thumbnail(index: int) -> npt.NDArray[np.floating]:
        picture = views.image(index)
        step = max(min(picture.shape[:2]) // (4 * THUMBNAIL[0]), 1)
        grey = Image.fromarray(np.array(picture[::step, ::step, :3])).convert("L")
        return np.asarray(grey.resize(THUMBNAIL, Image.Resampling.BOX), np.float32)

    frames = scene.splits["train"]
    cameras = [frame.camera for frame in frames]
    return fold_findings(shown_names(scene, frames), cameras, thumbnail)


def _are_among(apart: Array, leaps: npt.NDArray[np.intp]) -> npt.NDArray[np.bool_]:
    """Whether at each leap half of the cameras before it, or after, stand among the others.

    `apart` (n, n) are degrees between the cameras' axes, in the order of the walk.
    """
    ends = [0, *(leaps + 1).tolist(), len(apart)]
    stretches = [slice(first, last) for first, last in pairwise(ends)]
    found = []
    for before, after in pairwise(stretches):
        near = apart[before, after] < AMONG
        found.append(max(near.any(axis=0).mean(), near.any(axis=1).mean()) >= 0.5)
    return np.array(found, np.bool_)
