"""Image pairs: selection of the pairs to match, and detection of ambiguous matches.

The pairs to match are neighbors in name order and images from nearby cameras. If an object, such as
a can, looks the same from two sides, images of one side may be matched with images of the other
side ("folding"). The reprojection errors are then small, but half of the cameras are wrong. The
order of the images reveals the problem: at a "leap", the cameras of two consecutive images look in
very different directions. Images of a rig of fixed cameras also have leaps. A leap is attributed to
a rig in two cases: the cameras before the leap look in other directions than the cameras after the
leap, or the two images at the leap are no more similar than other images with different directions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeVar

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
    with at most `NEAREST` others, at most `radius` world units away, if the viewing axes differ by
    less than 35 degrees. `poses` contains camera-to-world poses (3, 4) with OpenGL axes.
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


Floats = npt.NDArray[np.float64]
Torn = tuple[str, str, float]
"""Inconsistent pair: two image names, and the angle between their viewing axes in degrees."""

WALKED = 0.8
"""Minimum fraction of consecutive images that match or look in similar directions if the name order
is the order of capture."""
NEAR = 2
"""Maximum distance in name order of an inconsistent pair. Other images may match by chance."""
MAX_ANGLE = 60.0
"""Maximum angle between viewing axes, in degrees, at which SIFT finds correct matches."""
AMONG = 15.0
"""Maximum angle in degrees between viewing axes of cameras that look in similar directions."""
BY_CHANCE = 0.9
"""Quantile of the image similarity over all pairs with an angle above `MAX_ANGLE`. The images at a
leap with ambiguous matches are at least this similar."""


class FoldCheck(NamedTuple):
    """Groups of images with consistent cameras, and inconsistent pairs of images."""

    groups: Sequence[set[str]]  # Names of the images in each group, largest group first.
    torn: Sequence[Torn] = ()  # Matching images that are close in name order, but in two groups.
    folded: Sequence[Torn] = ()  # Pairs in `torn` that are not attributed to a rig of cameras.

    @property
    def agreeing(self) -> int:
        """Number of images with consistent cameras: the images in the largest group, and in all
        other groups without an image of an inconsistent pair."""
        wrong = {name for one, other, _ in self.torn for name in (one, other)}
        return sum(
            len(group) for rank, group in enumerate(self.groups) if not (rank and group & wrong)
        )


def is_walk(names: Sequence[str], matches: Matches) -> bool:
    """Return whether the name order is probably the order of capture: enough neighbors match."""
    matched = [_count(pair, matches) >= MATCHED for pair in in_sequence(names, 1)]
    return bool(matched) and sum(matched) >= WALKED * len(matched)


def linked(names: Sequence[str], matches: Matches) -> int:
    """Return the size of the largest group of images that matches of neighbors connect."""
    pairs = [pair for pair in in_sequence(names) if _count(pair, matches) >= MATCHED]
    return max(map(len, _groups(names, pairs)), default=0)


def check_folds(names: Sequence[str], poses: Mapping[str, Floats], matches: Matches) -> FoldCheck:
    """Find pairs of matching images with camera poses that contradict the name order.

    Two images agree if they are close in name order, match, and their viewing axes differ by at
    most `MAX_ANGLE`. A group consists of images that are connected by agreeing pairs. A pair of
    matching images is inconsistent if the images are at most `NEAR` positions apart in name order,
    their viewing axes differ by more than `MAX_ANGLE`, and they are in different groups. `poses`
    contains camera-to-world poses (3, 4) with OpenGL axes. Images without a pose are ignored.
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
    """Return the indices i of the leaps, between the images i and i + 1, that are caused by
    ambiguous matches and not by a rig of several cameras.

    Args:
        difference: Angles (n, n) in degrees between viewing axes, above `MAX_ANGLE` at a leap.
        likeness: Function that returns the similarity (n, n) of images. The function is called only
            if the angles do not exclude ambiguous matches.
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
    """Return for each leap whether at least half of the cameras in the stretch of images before it
    or in the stretch after it look in a similar direction (`AMONG`) as a camera of the other
    stretch."""
    ends = [0, *(leaps + 1).tolist(), len(difference)]
    stretches = [slice(first, last) for first, last in pairwise(ends)]
    among = []
    for before, after in pairwise(stretches):
        near = difference[before, after] < AMONG
        among.append(max(near.any(axis=0).mean(), near.any(axis=1).mean()) >= 0.5)
    return np.array(among, np.bool_)


def _groups(items: Sequence, pairs: Sequence) -> list[set]:
    """Return the connected components of a graph of `items` and `pairs`, largest first."""
    group = {item: {item} for item in items}
    for one, other in pairs:
        if group[one] is not group[other]:
            group[one] |= group[other]
            group.update(dict.fromkeys(group[other], group[one]))
    return sorted({id(some): some for some in group.values()}.values(), key=len, reverse=True)


def _count(pair: tuple[str, str], matches: Matches) -> int:
    one, other = sorted(pair)
    return matches.get((one, other), 0)
