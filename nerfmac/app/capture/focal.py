"""Estimation of the focal length of images without EXIF by trying several values on a few images.
COLMAP can converge to a wrong scene with a small reprojection error if the initial focal length is
inaccurate. A trial therefore fixes it during mapping and optimizes it only at the end. Focal
lengths are relative to the longer side of the image."""

from collections.abc import Sequence
from typing import NamedTuple

from nerfmac.app.capture.findings import Finding, RefusedError
from nerfmac.app.capture.pairs import MATCHED, Counts
from nerfmac.app.capture.verdict import ratio

GUESSES = (1.0, 0.85, 1.2, 0.7, 1.4)
"""Focal lengths to try, in this order. Typical values are 0.7 to 0.9 for phones and up to 1.4 for
cameras."""
TYPICAL = 0.85
"""Focal length of phones, which is assumed if the images do not determine the focal length."""
TRIAL_IMAGES = 16  # Maximum number of images in a focal length trial.
ENOUGH = 100  # A trial prefers images with at least this many matches to each of two other images.
REJECTED = 4.0
"""Maximum reprojection error in pixels. COLMAP rejects observations with a larger error."""
LARGE_ERROR = 0.6  # A model with a larger mean reprojection error in pixels may be wrong.
SAME = 1.02  # Two focal lengths count as equal if their ratio is at most this value.
OTHER = 1.1  # Two focal lengths contradict each other if their ratio exceeds this value.
AS_GOOD = 1.05
"""A trial is equally good if its error is at most this multiple of the smallest error."""
WORSE = 1.25  # Maximum error with an assumed focal length, relative to that of the trials.
MIN_FOCAL, MAX_FOCAL = 0.4, 3.0
"""Range of focal lengths that images without EXIF have. A flat scene may suggest others."""
NEARLY_ALL = 0.9
"""Minimum number of images of a complete trial, relative to the trial with the most images."""
ADVICE = (
    "pass the focal length with --focal-35mm as its 35 mm equivalent in millimeters (24 to 28 for "
    "the main camera of most phones), or take the photos again: walk around the scene, with near "
    "and distant objects in "
    "each image"
)


class UnknownFocalError(RefusedError):
    """Exception for images that do not determine the focal length. Their cameras may be wrong."""


class Trial(NamedTuple):
    """Result of a focal length trial: of mapping a few images with a fixed focal length."""

    guess: float  # Focal length during mapping.
    focal: float  # Focal length after the final optimization.
    k1: float  # Distortion coefficient after the final optimization.
    k2: float  # Distortion coefficient after the final optimization.
    ratio: float  # Vertical focal length, relative to the horizontal one.
    error: float  # Mean reprojection error in pixels.
    observations: int  # Number of observations of sparse points.
    images: int  # Number of registered images.
    doubt: str = ""  # Why the focal length is assumed, or "" if it is estimated.

    @property
    def lens(self) -> list[float]:
        """Focal length, k1, k2, and ratio, for the plan of a stage."""
        return [self.focal, self.k1, self.k2, self.ratio]

    @property
    def finding(self) -> Finding:
        """The warning about an assumed focal length."""
        return Finding(
            "focal length",
            f"the focal length is not in EXIF, and {self.doubt}; {TYPICAL:g} is assumed, as for "
            "most phones, and with another one the scene would be stretched in depth",
            ADVICE,
            is_refused=False,
        )


def is_settled(trials: Sequence[Trial]) -> bool:
    """Return whether the best trial has a small error and another one has its focal length."""
    if len(trials) < 2:
        return False
    best, _ = _best(trials)
    agreeing = [trial for trial in trials if ratio(trial.focal, best.focal) <= SAME]
    return best.error <= LARGE_ERROR and len(agreeing) >= 2


def choose_trial(trials: Sequence[Trial]) -> Trial:
    """Return the complete trial with the smallest error, or a trial with the focal length `TYPICAL`
    if a trial with another focal length fits equally well, or if no photo has the focal length.

    Each observation that a trial lacks, compared with another trial, counts as an error of
    `REJECTED`. Otherwise, a wrong focal length could have the smallest error because COLMAP rejects
    most of its observations. `UnknownFocalError` is raised if the error is large and at least half
    of the trials contradict the best trial.
    """
    best, complete = _best(trials)
    contradicting = [trial for trial in complete if ratio(trial.focal, best.focal) > OTHER]
    if best.error > LARGE_ERROR and 2 * len(contradicting) >= len(complete):
        ends = ", ".join(f"{trial.guess:.2f} to {trial.focal:.2f}" for trial in trials)
        raise UnknownFocalError(
            "the focal length is not in EXIF and cannot be determined from the images: the guesses "
            f"converged from {ends} of the longer side, and the best one has a mean reprojection "
            f"error of {best.error:.2f} pixels; {ADVICE}"
        )
    limit = AS_GOOD * _fit(best, trials)
    as_good = [trial for trial in complete if _fit(trial, trials) <= limit]
    low, high = min(trial.focal for trial in as_good), max(trial.focal for trial in as_good)
    doubt = ""
    if ratio(low, high) > OTHER:
        doubt = f"{low:.2f} and {high:.2f} of the longer side fit equally well"
    elif not MIN_FOCAL < best.focal < MAX_FOCAL:
        doubt = f"{best.focal:.2f} of the longer side, which fits best, is not plausible"
    if doubt:
        return best._replace(focal=TYPICAL, k1=0.0, k2=0.0, doubt=doubt)
    return best


def check_focal(trial: Trial, focal: float, error: float) -> None:
    """Raise `UnknownFocalError` if the focal length of the final model, relative to the longer
    side, contradicts the chosen trial and the `error` of the model in pixels exceeds `LARGE_ERROR`.
    The error is also considered, because a trial with few images may be inaccurate. An assumed
    focal length must fit as well as those of the trials."""
    if trial.doubt and error > max(LARGE_ERROR, WORSE * trial.error):
        raise UnknownFocalError(
            "the focal length is not in EXIF and cannot be determined from the images: "
            f"{trial.doubt}, and the usual focal length of {TYPICAL:g} does not fit; {ADVICE}"
        )
    if error > LARGE_ERROR and ratio(focal, trial.focal) > OTHER:
        raise UnknownFocalError(
            f"the cameras are probably wrong: the mean reprojection error is {error:.2f} pixels, "
            f"and the focal length changed from {trial.focal:.2f} to {focal:.2f} of the longer "
            f"side; EXIF contains no focal length; {ADVICE}"
        )


def trial_images(names: Sequence[str], counts: Counts) -> list[str]:
    """Choose up to `TRIAL_IMAGES` images that match each other, and return their sorted names:
    first the image with the most matches, and then images with the smallest sufficient overlap,
    because images from similar positions hardly constrain the focal length."""
    links: dict[str, dict[str, int]] = {name: {} for name in names}
    for (one, other), count in counts.items():
        if one in links and other in links and count >= MATCHED:
            links[one][other] = links[other][one] = count
    chosen = sorted(names, key=lambda name: -sum(links[name].values()))[:1]
    while len(chosen) < TRIAL_IMAGES:
        best = {
            name: sorted((links[name].get(other, 0) for other in chosen), reverse=True)[:2]
            for name in names
            if name not in chosen
        }
        firm = [name for name, two in best.items() if two[-1] >= ENOUGH]
        weak = [name for name, two in best.items() if two[-1] >= MATCHED]
        if firm:
            chosen.append(min(firm, key=lambda name: best[name][0]))
        elif weak:
            chosen.append(max(weak, key=lambda name: best[name][-1]))
        else:
            break
    return sorted(chosen)


def _best(trials: Sequence[Trial]) -> tuple[Trial, list[Trial]]:
    """Return the complete trial with the smallest error, and all complete trials."""
    max_images = max(trial.images for trial in trials)
    complete = [trial for trial in trials if trial.images >= NEARLY_ALL * max_images]
    return min(complete, key=lambda trial: _fit(trial, trials)), complete


def _fit(trial: Trial, trials: Sequence[Trial]) -> float:
    """Return the mean error in pixels. Each missing observation counts as `REJECTED`."""
    max_observations = max(other.observations for other in trials)
    lost = max_observations - trial.observations
    return (trial.error * trial.observations + REJECTED * lost) / max_observations
