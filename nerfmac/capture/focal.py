"""The focal length of pictures whose EXIF names none: several guesses are tried, one is kept.

COLMAP adjusts the focal length while it maps. A far guess can end in a wrong scene that fits its
own points well. So a few pictures are mapped with each guess held, and released at the end.
Focal lengths are in longer sides of the picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from nerfmac.capture.agreement import ALIKE, Matches
from nerfmac.common.checks import InputError

GUESSES = (1.0, 0.85, 1.2, 0.7, 1.4)
"""Focal lengths to try, the most central first. Phones have 0.7 to 0.9, cameras up to 1.4."""
TRIAL_PICTURES = 16
"""Pictures that each guess is tried on."""
ENOUGH = 100
"""Matches with two other pictures that a picture of a trial should have."""
REJECTED = 4.0
"""Reprojection error in pixels above which COLMAP drops an observation."""
LARGE_ERROR = 0.6
"""Mean reprojection error in pixels above which a model is suspect."""
SAME = 1.02
"""Two guesses whose focal lengths end within this factor agree."""
OTHER = 1.1
"""Two focal lengths further apart than this factor contradict each other."""
AS_GOOD = 1.05
"""A trial fits as well as the best one up to this factor of the error."""
NEARLY_ALL = 0.9
"""Part of the most pictures placed by a trial that a trial has to place."""
ADVICE = (
    "give the focal length with --focal-35mm, in millimetres as on 35 mm film (24 to 28 for the "
    "main lens of most phones), or photograph again: walk around, with near and far things in "
    "each picture"
)


class UnknownFocalError(InputError):
    """The pictures do not tell their focal length, so their cameras cannot be trusted."""


class Trial(NamedTuple):
    """What came of one guess.

    `guess` was held while mapping and `focal` is where the last adjustment moved it, with the
    distortion `k1`, `k2`. `error` is the mean reprojection error in pixels of `observations`, and
    `pictures` counts those placed.
    """

    guess: float
    focal: float
    k1: float
    k2: float
    error: float
    observations: int
    pictures: int


def is_settled(trials: Sequence[Trial]) -> bool:
    """Whether the best trial and another one agree, so that no further guess is needed."""
    if len(trials) < 2:
        return False
    best = min(_complete(trials), key=lambda trial: _fit(trial, trials))
    agreeing = [trial for trial in trials if _factor(trial.focal, best.focal) <= SAME]
    return best.error <= LARGE_ERROR and len(agreeing) >= 2


def choose_trial(trials: Sequence[Trial]) -> Trial:
    """The trial with the least error of those that place nearly the most pictures.

    Observations that another trial has and this one lost count as rejected ones: a wrong focal
    length can have the least error by keeping the fewest points. Raises UnknownFocalError if one
    that fits as well has another focal length, or the error is large and most others contradict it.
    """
    complete = _complete(trials)
    best = min(complete, key=lambda trial: _fit(trial, trials))
    contradicting = [each for each in complete if _factor(each.focal, best.focal) > OTHER]
    if best.error > LARGE_ERROR and 2 * len(contradicting) >= len(complete):
        ends = ", ".join(f"{trial.guess:.2f} to {trial.focal:.2f}" for trial in trials)
        raise UnknownFocalError(
            "the pictures do not tell their focal length, and EXIF does not name it: guesses went "
            f"from {ends} of the longer side, and with the best points are off by "
            f"{best.error:.2f} pixels; {ADVICE}"
        )
    as_good = [each for each in complete if _fit(each, trials) <= AS_GOOD * _fit(best, trials)]
    low, high = min(trial.focal for trial in as_good), max(trial.focal for trial in as_good)
    if _factor(low, high) > OTHER:
        raise UnknownFocalError(
            f"the pictures do not tell their focal length, and EXIF does not name it: {low:.2f} "
            f"and {high:.2f} of the longer side fit them equally well; {ADVICE}"
        )
    return best


def check_focal(trial: Trial, focal: float, error: float) -> None:
    """Raises UnknownFocalError if all pictures' `focal` contradicts their `trial`.

    That alone may come of few pictures. With an `error` in pixels above `LARGE_ERROR` it is how a
    wrong scene looks.
    """
    if error > LARGE_ERROR and _factor(focal, trial.focal) > OTHER:
        raise UnknownFocalError(
            f"the cameras are probably wrong: points are off by {error:.2f} pixels in the mean, "
            f"and the focal length went from {trial.focal:.2f} to {focal:.2f} of the longer side, "
            f"as EXIF does not name it; {ADVICE}"
        )


def trial_pictures(names: Sequence[str], matches: Matches) -> list[str]:
    """Up to `TRIAL_PICTURES` of `names` to try guesses on, each matched to two others of them.

    They start at the picture with the most matches and spread as far as matches allow, since
    pictures from almost the same place say little about the focal length.
    """
    links: dict[str, dict[str, int]] = {name: {} for name in names}
    for (one, other), count in matches.items():
        if one in links and other in links and count >= ALIKE:
            links[one][other] = links[other][one] = count
    chosen = sorted(names, key=lambda name: -sum(links[name].values()))[:1]
    while len(chosen) < TRIAL_PICTURES:
        counts = {
            name: sorted((links[name].get(known, 0) for known in chosen), reverse=True)[:2]
            for name in names
            if name not in chosen
        }
        firm = [name for name, best in counts.items() if best[-1] >= ENOUGH]
        weak = [name for name, best in counts.items() if best[-1] >= ALIKE]
        if firm:
            chosen.append(min(firm, key=lambda name: counts[name][0]))
        elif weak:
            chosen.append(max(weak, key=lambda name: counts[name][-1]))
        else:
            break
    return sorted(chosen)


def _complete(trials: Sequence[Trial]) -> list[Trial]:
    most = max(trial.pictures for trial in trials)
    return [trial for trial in trials if trial.pictures >= NEARLY_ALL * most]


def _fit(trial: Trial, trials: Sequence[Trial]) -> float:
    """The mean error in pixels if each lost observation is off by `REJECTED`."""
    most = max(other.observations for other in trials)
    lost = most - trial.observations
    return (trial.error * trial.observations + REJECTED * lost) / most


def _factor(one: float, other: float) -> float:
    return max(one / other, other / one)
