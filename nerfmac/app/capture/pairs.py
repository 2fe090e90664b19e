"""Pairs of images to match: neighbors in their order, then cameras near each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Pairs = list[tuple[str, str]]
Matches = Mapping[tuple[str, str], int]
"""Number of matches that fit an epipolar geometry, by the sorted names of two images."""
MATCHED = 30
"""Number of matches from which two images count as matched; COLMAP registers no image with
fewer."""
WINDOW, LONG_WINDOW = 10, 40
"""Number of following images with which a image is matched: by the methods `sequential` and
`window`."""
NEAREST = 12
"""Largest number of near cameras with which a camera is newly matched."""
SIFT_COSINE = np.cos(np.radians(35.0))
"""Cosine of the largest angle between viewing axes at which SIFT matches reliably."""

Item = TypeVar("Item")


def in_sequence(items: Sequence[Item], window: int = WINDOW) -> list[tuple[Item, Item]]:
    """Pairs of each item with the `window` items that follow it.

    No pair is further apart: else an object that looks the same from two sides, such as a tin,
    would be folded, with the first half of the walk around it on top of the second.
    """
    return [
        (item, following)
        for index, item in enumerate(items)
        for following in items[index + 1 : index + 1 + window]
    ]


def in_space(poses: Mapping[str, npt.NDArray[np.float64]], radius: float, known: Pairs) -> Pairs:
    """Sorted pairs of cameras within `radius` that look the same way, except the `known` pairs.

    They close the loop where a walk returns to an earlier position. A camera is paired with the
    `NEAREST` of them, if their viewing axes differ by less than 35 degrees. `poses` are
    camera-to-world (3, 4) with OpenGL's axes; `radius` is in world units.
    """
    names = sorted(poses)
    eyes = np.stack([poses[name][:, 3] for name in names])
    axes = np.stack([poses[name][:, 2] for name in names])
    before, pairs = {frozenset(pair) for pair in known}, set()
    for index, name in enumerate(names):
        distance = np.linalg.norm(eyes - eyes[index], axis=1)
        fits = (distance < radius) & (axes @ axes[index] > SIFT_COSINE)
        others = [names[other] for other in np.argsort(distance, kind="stable") if fits[other]]
        new = [other for other in others if other != name and {name, other} not in before]
        pairs |= {(min(name, other), max(name, other)) for other in new[:NEAREST]}
    return sorted(pairs)
