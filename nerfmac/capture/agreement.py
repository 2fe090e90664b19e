"""Whether the cameras that were found agree with the order of their pictures.

A thing that looks the same from two sides, such as a tin, is folded onto itself where the pictures
of one side are taken for those of the other: all points fit, and half the cameras stand in the
wrong place. The order of the pictures shows it. Where it is that of a walk, neighbours stand near
each other; a fold must tear some apart, though they show the same things.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nerfmac.capture.pairs import Pairs, in_sequence

Matches = Mapping[tuple[str, str], int]
"""How many matches of two pictures fit an epipolar geometry; the names of a pair are sorted."""

ALIKE = 30
"""So many matches say that two pictures show the same things: COLMAP places none by fewer."""
WALKED = 0.8
"""The order is that of a walk if this part of the neighbours show the same things."""
NEAR = 2
"""A fold tears pictures that are so many apart in order. Further ones may be alike by chance."""
APART = 60.0
"""Degrees between two lines of sight from which on SIFT finds nothing in common."""


class Agreement(NamedTuple):
    """`groups` of pictures whose cameras agree, the largest first, and what is `torn` apart.

    A torn pair is the names of two near pictures, and the degrees between their lines of sight.
    """

    groups: list[set[str]]
    torn: list[tuple[str, str, float]]

    @property
    def agreeing(self) -> int:
        """How many pictures are left without the groups that are torn from the largest."""
        wrong = {name for one, other, _ in self.torn for name in (one, other)}
        return sum(len(each) for each in self.groups[:1]) + sum(
            len(each) for each in self.groups[1:] if not each & wrong
        )


def is_walk(names: Sequence[str], matches: Matches) -> bool:
    """Whether each picture, in the order of `names`, mostly shows what the next one shows."""
    alike = [_are_alike(pair, matches) for pair in in_sequence(names, 1)]
    return bool(alike) and sum(alike) >= WALKED * len(alike)


def linked(names: Sequence[str], matches: Matches) -> int:
    """How many pictures hang together by what near ones show: hardly more can get a camera."""
    alike = [pair for pair in in_sequence(names) if _are_alike(pair, matches)]
    return max(map(len, _grouped(names, alike).values()), default=0)


def agreement(
    names: Sequence[str], poses: Mapping[str, npt.NDArray[np.float64]], matches: Matches
) -> Agreement:
    """How far the cameras agree with `matches` of pictures that are near in the order of `names`.

    `poses` are camera-to-world (3, 4) with OpenGL's axes, by their pictures' names. Pictures agree
    that show the same things, and look within `APART` of the same direction; and those that agree
    with one and the same picture.
    """
    names = [name for name in names if name in poses]
    turned = {}
    for one, other in in_sequence(names):
        if _are_alike((one, other), matches):
            cosine = float(poses[one][:, 2] @ poses[other][:, 2])
            turned[one, other] = float(np.degrees(np.arccos(np.clip(cosine, -1, 1))))
    group = _grouped(names, [pair for pair, degrees in turned.items() if degrees <= APART])
    groups = sorted({id(each): each for each in group.values()}.values(), key=len, reverse=True)
    torn = []
    for one, other in in_sequence(names, NEAR):
        degrees = turned.get((one, other), 0.0)
        # Two that are held together by others between them are not torn apart, however far.
        if degrees > APART and group[one] is not group[other]:
            torn.append((one, other, degrees))
    return Agreement(groups, torn)


def _grouped(names: Sequence[str], pairs: Pairs) -> dict[str, set[str]]:
    """For each name its group: all those that it hangs together with by the pairs."""
    group = {name: {name} for name in names}
    for one, other in pairs:
        if group[one] is not group[other]:
            group[one] |= group[other]
            group.update(dict.fromkeys(group[other], group[one]))
    return group


def _are_alike(pair: tuple[str, str], matches: Matches) -> bool:
    one, other = sorted(pair)
    return matches.get((one, other), 0) >= ALIKE
