"""Folds: cameras that contradict the order of their images.

An object that looks the same from two sides, such as a tin, can be folded onto itself: images of
one side are matched with those of the other. All points then fit, but half the cameras are wrong.
The order of the images shows it: at a fold, the cameras of two successive images of a walk look
in very different directions (a leap). A rig of fixed cameras also leaps. But at its leaps the
cameras of the stretch before look elsewhere than those of the stretch after, or images look alike
at any angle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nerfmac.app.capture.pairs import MATCHED, WINDOW, Matches, in_sequence

Floats = npt.NDArray[np.float64]
Torn = tuple[str, str, float]
"""Names of two matching images near in the order, and degrees between their viewing axes."""

WALKED = 0.8
"""Smallest fraction of successive images that must match, or look in similar directions, for an
order to count as a walk."""
NEAR = 2
"""Largest distance, in the order of names, between the two images of a torn pair; images
further apart may match by chance."""
APART = 60.0
"""Degrees between two viewing axes beyond which SIFT can hardly match one side of an object."""
AMONG = 15.0
"""A camera stands among those of another stretch (the images between two leaps) if it looks
within this many degrees of the direction of one of them."""
BY_CHANCE = 0.9
"""A leap can be a fold only if the likeness of its two images reaches this quantile of the
likeness over all pairs whose viewing axes differ by more than `APART`."""


class FoldCheck(NamedTuple):
    """Groups of images whose cameras agree with their order, and pairs that contradict it."""

    groups: Sequence[set[str]]  # the largest first
    torn: Sequence[Torn] = ()  # near images that match, with cameras in different groups
    folded: Sequence[Torn] = ()  # the torn pairs that a fold explains, not a rig

    @property
    def agreeing(self) -> int:
        """Number of images in the largest group and in other groups without a torn image."""
        wrong = {name for one, other, _ in self.torn for name in (one, other)}
        return sum(
            len(group) for rank, group in enumerate(self.groups) if not (rank and group & wrong)
        )


def is_walk(names: Sequence[str], matches: Matches) -> bool:
    """Whether at least `WALKED` of the images match the next one in the order of `names`."""
    matched = [_count(pair, matches) >= MATCHED for pair in in_sequence(names, 1)]
    return bool(matched) and sum(matched) >= WALKED * len(matched)


def linked(names: Sequence[str], matches: Matches) -> int:
    """Size of the largest group that matches of near images connect; few others get a camera."""
    pairs = [pair for pair in in_sequence(names) if _count(pair, matches) >= MATCHED]
    return max(map(len, _groups(names, pairs)), default=0)


def check_folds(names: Sequence[str], poses: Mapping[str, Floats], matches: Matches) -> FoldCheck:
    """Check cameras against the `matches` of images that are near in the order of `names`.

    Two of them agree if they match and their viewing axes differ by at most `APART`; such pairs
    connect the groups. `poses` are camera-to-world (3, 4) with OpenGL's axes, by image name.
    Images without a pose are ignored.
    """
    names = [name for name in names if name in poses]
    if not names:
        return FoldCheck([])
    apart = angles(np.stack([poses[name][:, 2] for name in names]))
    counts, index = np.zeros(apart.shape), {name: index for index, name in enumerate(names)}
    for (one, other), count in matches.items():
        if one in index and other in index:
            counts[index[one], index[other]] = counts[index[other], index[one]] = count
    agrees = np.tril(np.triu((counts >= MATCHED) & (apart <= APART), 1), WINDOW)
    groups = _groups(range(len(names)), np.argwhere(agrees).tolist())
    leaps = np.flatnonzero(np.diagonal(apart, 1) > APART)
    rigs = {*leaps.tolist()} - {*folded_leaps(apart, lambda: counts).tolist()}
    torn, folded = [], []
    for i, j in in_sequence(range(len(names)), NEAR):
        is_torn = counts[i, j] >= MATCHED and apart[i, j] > APART
        # A pair that other images connect is not torn, however far apart its cameras look.
        if is_torn and not any({i, j} <= group for group in groups):
            torn.append((names[i], names[j], float(apart[i, j])))
            if not rigs & {*range(i, j)}:
                folded.append(torn[-1])
    return FoldCheck([{names[index] for index in group} for group in groups], torn, folded)


def folded_leaps(apart: Floats, likeness: Callable[[], Floats]) -> npt.NDArray[np.intp]:
    """Indices i of the leaps, from image i to i + 1 of the order, that are folds.

    The other leaps count as those of a rig of several cameras.

    `apart` (n, n) holds degrees between viewing axes; a leap exceeds `APART`. `likeness()` (n, n)
    tells how alike two images look; it is called only if the angles leave leaps that may be
    folds.
    """
    leaps = np.flatnonzero(np.diagonal(apart, 1) > APART)
    leaps = leaps[_stand_among(apart, leaps)]
    if len(leaps):
        alike = likeness()
        leaps = leaps[alike[leaps, leaps + 1] >= np.quantile(alike[apart > APART], BY_CHANCE)]
    return leaps


def angles(axes: Floats) -> Floats:
    """Degrees (n, n) between unit vectors (n, 3)."""
    return np.degrees(np.arccos(np.clip(axes @ axes.T, -1, 1)))


def _stand_among(apart: Floats, leaps: npt.NDArray[np.intp]) -> npt.NDArray[np.bool_]:
    """Whether, at each leap, at least half the cameras of the stretch before or after it look
    within `AMONG` degrees of a camera of the other stretch."""
    ends = [0, *(leaps + 1).tolist(), len(apart)]
    stretches = [slice(first, last) for first, last in pairwise(ends)]
    among = []
    for before, after in pairwise(stretches):
        near = apart[before, after] < AMONG
        among.append(max(near.any(axis=0).mean(), near.any(axis=1).mean()) >= 0.5)
    return np.array(among, np.bool_)


def _groups(items: Sequence, pairs: Sequence) -> list[set]:
    """Sets of `items` that `pairs` connect, the largest first."""
    group = {item: {item} for item in items}
    for one, other in pairs:
        if group[one] is not group[other]:
            group[one] |= group[other]
            group.update(dict.fromkeys(group[other], group[one]))
    return sorted({id(some): some for some in group.values()}.values(), key=len, reverse=True)


def _count(pair: tuple[str, str], matches: Matches) -> int:
    one, other = sorted(pair)
    return matches.get((one, other), 0)
