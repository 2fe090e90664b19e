"""Focal length of images without EXIF: several guesses are tried on a few images.

COLMAP adjusts the focal length while it maps. From a guess that is far off it can reach a wrong
scene that fits its own points well. So each trial fixes its guess while mapping and adjusts it at
the end only. Focal lengths are in units of the image's longer side.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from nerfmac.app.capture.pairs import MATCHED, Matches
from nerfmac.common.checks import InputError

GUESSES = (1.0, 0.85, 1.2, 0.7, 1.4)
"""Focal lengths to try, in this order, as fractions of the image's longer side. Phones have 0.7
to 0.9, cameras up to 1.4."""
TRIAL_IMAGES = 16
"""Largest number of images in a trial."""
ENOUGH = 100
"""Number of matches that a image of the trial should have with each of two others in it."""
REJECTED = 4.0
"""Reprojection error in pixels above which COLMAP drops an observation."""
LARGE_ERROR = 0.6
"""Mean reprojection error, in pixels, above which a model may be wrong."""
SAME = 1.02
"""Two trials agree if their focal lengths differ by at most this factor."""
OTHER = 1.1
"""Two focal lengths contradict each other if they differ by more than this factor."""
AS_GOOD = 1.05
"""A trial fits as well as the best if its error is at most this factor times the smallest."""
NEARLY_ALL = 0.9
"""A trial is complete if it registers at least this fraction of the largest number of images
that any trial registers."""
ADVICE = (
    "give the focal length with --focal-35mm, in millimeters as on 35 mm film (24 to 28 for the "
    "main lens of most phones), or photo again: walk around, with near and far things in "
    "each image"
)


class UnknownFocalError(InputError):
    """The focal length cannot be told from the images, so their cameras may be wrong."""


class Trial(NamedTuple):
    """Result of mapping a few images with one guess of the focal length."""

    guess: float  # fixed while mapping
    focal: float  # after the last adjustment, with the distortion k1, k2
    k1: float
    k2: float
    error: float  # mean reprojection error in pixels
    observations: int
    images: int  # number of registered images


def is_settled(trials: Sequence[Trial]) -> bool:
    """Whether no further guess is needed: the best trial has a small error, and another agrees."""
    if len(trials) < 2:
        return False
    best = min(_complete(trials), key=lambda trial: _fit(trial, trials))
    agreeing = [trial for trial in trials if _factor(trial.focal, best.focal) <= SAME]
    return best.error <= LARGE_ERROR and len(agreeing) >= 2


def choose_trial(trials: Sequence[Trial]) -> Trial:
    """The trial with the least error among the complete ones.

    An observation that only other trials have counts as an error of `REJECTED`: otherwise a wrong
    focal length could win by keeping few points. Raises UnknownFocalError if a trial with another
    focal length fits as well, or if the error is large and at least half the trials contradict it.
    """
    complete = _complete(trials)
    best = min(complete, key=lambda trial: _fit(trial, trials))
    contradicting = [trial for trial in complete if _factor(trial.focal, best.focal) > OTHER]
    if best.error > LARGE_ERROR and 2 * len(contradicting) >= len(complete):
        ends = ", ".join(f"{trial.guess:.2f} to {trial.focal:.2f}" for trial in trials)
        raise UnknownFocalError(
            "the images do not tell their focal length, and EXIF does not name it: guesses went "
            f"from {ends} of the longer side, and with the best points are off by "
            f"{best.error:.2f} pixels; {ADVICE}"
        )
    limit = AS_GOOD * _fit(best, trials)
    as_good = [trial for trial in complete if _fit(trial, trials) <= limit]
    low, high = min(trial.focal for trial in as_good), max(trial.focal for trial in as_good)
    if _factor(low, high) > OTHER:
        raise UnknownFocalError(
            f"the images do not tell their focal length, and EXIF does not name it: {low:.2f} "
            f"and {high:.2f} of the longer side fit them equally well; {ADVICE}"
        )
    return best


def check_focal(trial: Trial, focal: float, error: float) -> None:
    """Raise UnknownFocalError if the model's `focal` contradicts the trial and its error is large.

    A trial of few images may be off; only with an `error` above `LARGE_ERROR` pixels too is the
    scene probably wrong.
    """
    if error > LARGE_ERROR and _factor(focal, trial.focal) > OTHER:
        raise UnknownFocalError(
            f"the cameras are probably wrong: points are off by {error:.2f} pixels in the mean, "
            f"and the focal length went from {trial.focal:.2f} to {focal:.2f} of the longer side, "
            f"as EXIF does not name it; {ADVICE}"
        )


def trial_images(names: Sequence[str], matches: Matches) -> list[str]:
    """Up to `TRIAL_IMAGES` of `names`, sorted, that match each other.

    The choice starts with the image that has the most matches, and adds those that overlap least
    but enough: images from almost one position say little about the focal length.
    """
    links: dict[str, dict[str, int]] = {name: {} for name in names}
    for (one, other), count in matches.items():
        if one in links and other in links and count >= MATCHED:
            links[one][other] = links[other][one] = count
    chosen = sorted(names, key=lambda name: -sum(links[name].values()))[:1]
    while len(chosen) < TRIAL_IMAGES:
        counts = {
            name: sorted((links[name].get(other, 0) for other in chosen), reverse=True)[:2]
            for name in names
            if name not in chosen
        }
        firm = [name for name, best in counts.items() if best[-1] >= ENOUGH]
        weak = [name for name, best in counts.items() if best[-1] >= MATCHED]
        if firm:
            chosen.append(min(firm, key=lambda name: counts[name][0]))
        elif weak:
            chosen.append(max(weak, key=lambda name: counts[name][-1]))
        else:
            break
    return sorted(chosen)


def _complete(trials: Sequence[Trial]) -> list[Trial]:
    most = max(trial.images for trial in trials)
    return [trial for trial in trials if trial.images >= NEARLY_ALL * most]


def _fit(trial: Trial, trials: Sequence[Trial]) -> float:
    """Mean error in pixels, counting each lost observation as `REJECTED`."""
    most = max(other.observations for other in trials)
    lost = most - trial.observations
    return (trial.error * trial.observations + REJECTED * lost) / most


def _factor(one: float, other: float) -> float:
    return max(one / other, other / one)
