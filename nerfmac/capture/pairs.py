"""Which pictures are compared with which: all, or the neighbours in time and then in space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt

Pairs = list[tuple[str, str]]

WINDOW = 10
"""Frames of a video are compared with so many that follow."""
NEAREST = 12
"""Cameras are compared with so many of those that stand nearest and look the same way, beside
their neighbours in time."""
ALIKE = np.cos(np.radians(35.0))
"""Cosine of the angle between two lines of sight, up to which SIFT finds the same things."""
LONG_WINDOW = 40
"""The same for so many photographs that comparing each with each would take hours."""


def every_pair(names: Sequence[str]) -> Pairs:
    """Each with each."""
    return list(combinations(names, 2))


def in_sequence(names: Sequence[str], window: int = WINDOW) -> Pairs:
    """Each with the `window` that follow it.

    None are further apart in time: things that look the same on two sides, such as a tin, would
    make the first half of a way around them fall on the second.
    """
    return [
        (name, other)
        for index, name in enumerate(names)
        for other in names[index + 1 : index + 1 + window]
    ]


def in_space(poses: Mapping[str, npt.NDArray[np.float64]], reach: float, known: Pairs) -> Pairs:
    """Pairs of cameras that stand near each other and look the same way, without those `known`.

    `poses` are camera-to-world (3, 4) with OpenGL's axes. Near is within `reach`, a length of the
    world. So a way that comes back to where it began is closed there, and nowhere else.
    """
    names = sorted(poses)
    eyes = np.stack([poses[name][:, 3] for name in names])
    sights = np.stack([poses[name][:, 2] for name in names])
    before, found = {frozenset(pair) for pair in known}, set()
    for index, name in enumerate(names):
        away = np.linalg.norm(eyes - eyes[index], axis=1)
        fits = (away < reach) & (sights @ sights[index] > ALIKE)
        others = [names[each] for each in np.argsort(away, kind="stable") if fits[each]]
        new = [each for each in others if each != name and frozenset((name, each)) not in before]
        found |= {(min(name, each), max(name, each)) for each in new[:NEAREST]}
    return sorted(found)
