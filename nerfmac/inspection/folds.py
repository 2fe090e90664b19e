"""Cameras that are torn apart though their pictures follow each other and look alike.

So it is where a thing that looks the same from two sides was folded onto itself: the cameras of one
side then stand among those of the other, and the walk around it leaps.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nerfmac.capture.agreement import APART, WALKED
from nerfmac.files import counted
from nerfmac.geometry.cameras import Camera
from nerfmac.inspection.pictures import Look

FEWEST = 12
"""Pictures from which on their order can be told to be a walk."""
NEAR = 30.0
"""Degrees between the axes of neighbours, up to which they stand near; that is a walk's measure
here, where no matches are known."""
ALIKE = 0.1
"""Two pictures look alike if they correlate better than this part of the neighbours that are."""


def fold_findings(
    names: Sequence[str], cameras: Sequence[Camera], looks: Sequence[Look]
) -> list[str]:
    """A line for each two pictures that follow each other by name, look alike, and are far apart.

    Nothing is said where the order of names is no walk.
    """
    order = sorted(range(len(names)), key=lambda index: counted(names[index]))
    if len(order) < FEWEST:
        return []
    sights = np.stack([cameras[index].pose[:, 2] for index in order]).astype(np.float64)
    angles = np.degrees(np.arccos(np.clip((sights[1:] * sights[:-1]).sum(axis=1), -1, 1)))
    small = np.stack([looks[index].thumbnail.ravel() for index in order]).astype(np.float64)
    small -= small.mean(axis=1, keepdims=True)
    small /= np.maximum(np.linalg.norm(small, axis=1, keepdims=True), 1e-9)
    likeness = (small[1:] * small[:-1]).sum(axis=1)
    near = angles < NEAR
    if near.mean() < WALKED:
        return []
    alike = likeness >= np.quantile(likeness[near], ALIKE)
    return [
        f"{names[order[each]]} and {names[order[each + 1]]} follow each other and look alike, but "
        f"their cameras look {angles[each]:.0f} degrees apart: a thing that is the same from two "
        "sides may be folded onto itself"
        for each in np.flatnonzero((angles > APART) & alike)
    ]
