"""Selection of image pairs to match: neighbors in name order, and nearby cameras."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Pairs = list[tuple[str, str]]
Matches = Mapping[tuple[str, str], int]
"""Number of matches that fit an epipolar geometry, keyed by the sorted names of two images."""
MATCHED = 30
"""Minimum number of matches in a matching pair. With fewer, COLMAP does not register images."""
WINDOW, LONG_WINDOW = 10, 40
"""Number of next images to match, for `--matching sequential` and `--matching window`."""
NEAREST = 12  # Maximum number of nearby cameras that each camera is additionally paired with.
SIFT_COSINE = np.cos(np.radians(35.0))
"""Cosine of the maximum angle between viewing axes for reliable SIFT matches."""

Item = TypeVar("Item")


def in_sequence(items: Sequence[Item], window: int = WINDOW) -> list[tuple[Item, Item]]:
    """Pair each item with the next `window` items in the order of capture.

    Items that are farther apart in the list are not paired, because images of opposite sides of an
    object such as a can would match if both sides look alike. Structure from motion would then
    place all cameras on the same side of the object.
    """
    return [
        (item, following)
        for index, item in enumerate(items)
        for following in items[index + 1 : index + 1 + window]
    ]


def in_space(poses: Mapping[str, npt.NDArray[np.float64]], radius: float, known: Pairs) -> Pairs:
    """Return sorted pairs of cameras that are nearby and look in similar directions, except the
    `known` pairs.

    If the camera returns to an earlier position, these pairs close the loop. A camera is paired
    with at most `NEAREST` other cameras, and only if the angle between the viewing axes is below 35
    degrees. `poses` contains camera-to-world poses (3, 4) with OpenGL axes. `radius` is the maximum
    distance in world units.
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
