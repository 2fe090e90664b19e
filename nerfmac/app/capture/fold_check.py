"""Detection of ambiguous matches, which cause cameras that contradict the order of their images.

If an object looks the same from two sides, such as a can, images of one side may be matched with
images of the other side ("folding"). The reprojection errors are then small, but half of the
cameras are wrong. The order of the images reveals the problem, because the cameras of two
consecutive images look in very different directions (a leap). A rig of fixed cameras also has
leaps, but the cameras before a leap look in other directions than the cameras after it, or images
look similar at any angle.
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
"""Names of two matching images that are close in the order, and the angle between their viewing
axes in degrees."""

WALKED = 0.8
"""Minimum fraction of consecutive images that match or look in similar directions, if the order of
the images is the order of capture."""
NEAR = 2
"""Maximum distance in name order between the images of an inconsistent pair. Images with a larger
distance may match by chance."""
MAX_ANGLE = 60.0
"""Angle between viewing axes, in degrees, above which SIFT hardly finds correct matches."""
AMONG = 15.0
"""Maximum angle in degrees between a camera and a camera of another stretch (the images between two
leaps) that looks in the same direction."""
BY_CHANCE = 0.9
"""Minimum quantile of the similarity of the images at a fold, among the similarity of all pairs
with viewing axes that differ by more than `MAX_ANGLE`."""


class FoldCheck(NamedTuple):
    """Groups of images with cameras that are consistent with the image order, and pairs that
    contradict it."""

    groups: Sequence[set[str]]  # Largest group first.
    torn: Sequence[Torn] = ()  # Inconsistent pairs: close images that match, in different groups.
    folded: Sequence[Torn] = ()  # Inconsistent pairs caused by ambiguous matches and not by a rig.

    @property
    def agreeing(self) -> int:
        """Number of images in the largest group and in other groups without inconsistent pairs."""
        wrong = {name for one, other, _ in self.torn for name in (one, other)}
        return sum(
            len(group) for rank, group in enumerate(self.groups) if not (rank and group & wrong)
        )


def is_walk(names: Sequence[str], matches: Matches) -> bool:
    """Return whether at least the fraction `WALKED` of the images match the next image in name
    order."""
    matched = [_count(pair, matches) >= MATCHED for pair in in_sequence(names, 1)]
    return bool(matched) and sum(matched) >= WALKED * len(matched)


def linked(names: Sequence[str], matches: Matches) -> int:
    """Return the size of the largest group that is connected by matches of images close in the
    order."""
    pairs = [pair for pair in in_sequence(names) if _count(pair, matches) >= MATCHED]
    return max(map(len, _groups(names, pairs)), default=0)


def check_folds(names: Sequence[str], poses: Mapping[str, Floats], matches: Matches) -> FoldCheck:
    """Check cameras against matches of images that are close in name order.

    Two images agree if they match and their viewing axes differ by at most `MAX_ANGLE`. Agreeing
    pairs connect the groups.

    Args:
        names: Image names in order.
        poses: Camera-to-world poses (3, 4) with OpenGL axes by image name. Images without a pose
            are ignored.
        matches: Number of matches of image pairs.

    Returns:
        Groups and inconsistent pairs.
    """
    names = [name for name in names if name in poses]
    if not names:
        return FoldCheck([])
    difference = angles(np.stack([poses[name][:, 2] for name in names]))
    counts, index = np.zeros(difference.shape), {name: index for index, name in enumerate(names)}
    for (one, other), count in matches.items():
        if one in index and other in index:
            counts[index[one], index[other]] = counts[index[other], index[one]] = count
    agrees = np.tril(np.triu((counts >= MATCHED) & (difference <= MAX_ANGLE), 1), WINDOW)
    groups = _groups(range(len(names)), np.argwhere(agrees).tolist())
    leaps = np.flatnonzero(np.diagonal(difference, 1) > MAX_ANGLE)
    rigs = {*leaps.tolist()} - {*folded_leaps(difference, lambda: counts).tolist()}
    torn, folded = [], []
    for i, j in in_sequence(range(len(names)), NEAR):
        is_torn = counts[i, j] >= MATCHED and difference[i, j] > MAX_ANGLE
        # A pair that other images connect is consistent even if the angle between its viewing axes
        # is large.
        if is_torn and not any({i, j} <= group for group in groups):
            torn.append((names[i], names[j], float(difference[i, j])))
            if not rigs & {*range(i, j)}:
                folded.append(torn[-1])
    return FoldCheck([{names[index] for index in group} for group in groups], torn, folded)


def folded_leaps(difference: Floats, likeness: Callable[[], Floats]) -> npt.NDArray[np.intp]:
    """Find leaps that are caused by ambiguous matches and not by a rig of several cameras.

    Args:
        difference: Angles (n, n) in degrees between viewing axes. A leap exceeds `MAX_ANGLE`.
        likeness: Function that returns the similarity (n, n) of images. It is called only if the
            angles do not exclude ambiguous matches.

    Returns:
        Indices i of the leaps, from image i to image i + 1.
    """
    leaps = np.flatnonzero(np.diagonal(difference, 1) > MAX_ANGLE)
    leaps = leaps[_stand_among(difference, leaps)]
    if len(leaps):
        alike = likeness()
        leaps = leaps[
            alike[leaps, leaps + 1] >= np.quantile(alike[difference > MAX_ANGLE], BY_CHANCE)
        ]
    return leaps


def angles(axes: Floats) -> Floats:
    """Return the angles (n, n) in degrees between unit vectors (n, 3)."""
    return np.degrees(np.arccos(np.clip(axes @ axes.T, -1, 1)))


def _stand_among(difference: Floats, leaps: npt.NDArray[np.intp]) -> npt.NDArray[np.bool_]:
    """Return whether each leap is between stretches of cameras that look in similar directions.

    This is the case if at least half of the cameras in the stretch before or after the leap look
    within `AMONG` degrees of a camera in the other stretch.
    """
    ends = [0, *(leaps + 1).tolist(), len(difference)]
    stretches = [slice(first, last) for first, last in pairwise(ends)]
    among = []
    for before, after in pairwise(stretches):
        near = difference[before, after] < AMONG
        among.append(max(near.any(axis=0).mean(), near.any(axis=1).mean()) >= 0.5)
    return np.array(among, np.bool_)


def _groups(items: Sequence, pairs: Sequence) -> list[set]:
    """Return sets of `items` that `pairs` connect, largest first."""
    group = {item: {item} for item in items}
    for one, other in pairs:
        if group[one] is not group[other]:
            group[one] |= group[other]
            group.update(dict.fromkeys(group[other], group[one]))
    return sorted({id(some): some for some in group.values()}.values(), key=len, reverse=True)


def _count(pair: tuple[str, str], matches: Matches) -> int:
    one, other = sorted(pair)
    return matches.get((one, other), 0)
