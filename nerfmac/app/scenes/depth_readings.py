"""Readings of depth images: the unit, depth along the optical axis or along the ray, and a marker
of unknown depth. Scene files often do not specify them correctly, but the images of different views
must agree.

A point that one view measures is projected to the other views. If the poses and the reading are
correct, most points have the depth that the other views measure there, or are hidden behind a
measured surface. Hidden points do not count.
"""

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from nerfmac.app.scenes.depth_images import AS_STORED, DepthReading, stored_values
from nerfmac.app.scenes.measured_points import (
    Measured,
    evenly_spaced,
    in_scale_of_points,
    with_usable_depth,
)
from nerfmac.app.scenes.parsed_scene import PosedImage
from nerfmac.common import Float64Array, log

MAX_VIEWS, MAX_POINTS = 24, 1000
"""Maximum number of evenly spaced views that are compared, and of points of each view."""
AGREEMENT = 0.05  # Maximum relative difference of distances that agree.
MIN_AGREEMENT = 0.65
"""Minimum fraction of the points that agree in a correct scene. Measured: 0.85 to 1 in correct
scenes, whose poses and depths have errors, and at most 0.61 with a wrong unit or wrong axes."""
CLEAR = 0.8  # Minimum fraction that agrees with another reading than that of the files.
MIN_COMPARED = 1000  # Minimum number of points for which the fraction is computed.
FACTORS = (1.0, 1e-3, 1e-2, 0.1, 0.2, 0.3048, 1 / 0.3048, 5.0, 10.0, 100.0, 1000.0)
"""Factors between units of length that are tried if the views do not agree."""
BETTER = 0.6
"""Maximum mean difference of a better reading, relative to that of the reading of the files.
Measured: 0.01 to 0.2 with the other direction of depth, and above 1 if the files are right."""
NEAR_TOP, MIN_MARKED, PEAK, APART = 0.9, 1e-3, 20, 1.1
"""A marker of unknown depth is the most frequent value above NEAR_TOP of the maximum. At least the
fraction MIN_MARKED of the pixels have it, PEAK times more than a typical value there, or it is
larger than all other values by the factor APART."""
TURNED = 0.01
"""Minimum difference of the viewing axes of two views that contain the marker, because a wall has
the same depth in many pixels of views that face it."""
FAR_APART = 10.0
"""Ratio to all other values from which the marker needs no comparison of views, which fails with a
wrong unit."""
MARKED, MIN_PIXELS = 0.7, 20
"""Maximum agreement of the pixels with the marker, relative to that of the other pixels, and
minimum number of pixels for comparisons. Measured: 0 for markers beyond all surfaces, at most 0.6
for saturated values, and 0.99 for the largest value on a surface."""


class Agreement(NamedTuple):
    """Number of projected points that agree, number of all points that are not hidden, and their
    mean relative difference, at most 2 `AGREEMENT` each."""

    agree: int
    total: int
    difference: float

    @property
    def share(self) -> float:
        """Fraction of the points that agree, or NaN if there are too few points."""
        return self.agree / self.total if self.total >= MIN_COMPARED else float("nan")


def with_depth(
    images: Sequence[PosedImage],
    points: Float64Array | None,
    where: str,
    given: DepthReading | None,
) -> tuple[list[PosedImage], DepthReading]:
    """Return the images with the depth images that can be used, and the reading of their values:
    `given`, or the best one. If `points` is not None, the poses have the scale of these sparse
    points (n, 3), and so have the resulting depths. `where` is the scene file."""
    if not any(image.depth for image in images):
        return list(images), given or AS_STORED
    usable = with_usable_depth(images, where)
    reading = given or best_reading(usable, where, has_unit=points is None)
    read = _read_as(usable, reading)
    return read if points is None else in_scale_of_points(read, points, where), reading


def best_reading(images: Sequence[PosedImage], where: str, *, has_unit: bool) -> DepthReading:
    """Return the reading of the depth images with which the views agree best, if it is clearly
    better than the reading of the files, and log it. `has_unit` is False if the poses have a scale
    of their own. `where` is the scene file."""
    chosen = evenly_spaced(images, MAX_VIEWS)
    given = AS_STORED._replace(marker=_marker(chosen, where))
    before = _agreement(chosen, given)
    factors = FACTORS if has_unit and not before.share >= MIN_AGREEMENT else FACTORS[:1]
    found = {
        reading: _agreement(chosen, reading)
        for factor, along_rays in product(factors, (False, True))
        if (reading := DepthReading(factor, along_rays, given.marker)) != given
    }
    # In a larger scale, turning cameras nearly agree. In a smaller scale, few points are in another
    # view.
    most = max(result.agree for result in found.values())
    likely = [reading for reading, result in found.items() if 2 * result.agree >= most]
    best = min(likely, key=lambda reading: found[reading].difference)
    after = found[best]
    is_worse = np.isnan(after.share) or after.share < max(CLEAR, np.nan_to_num(before.share))
    if is_worse or (before.total >= MIN_COMPARED and after.difference > BETTER * before.difference):
        return given
    log.warning(
        f"the depth images of {where} are read {best}: {after.share:.0%} of the depths agree with "
        f"other views, instead of {np.nan_to_num(before.share):.0%}"
    )
    return best


def _agreement(images: Sequence[PosedImage], reading: DepthReading) -> Agreement:
    views = [*map(Measured.of, _read_as(images, reading))]
    return agreement_of(views, views)


def _read_as(images: Sequence[PosedImage], reading: DepthReading) -> list[PosedImage]:
    return [image._replace(depth=image.depth and image.depth.read_as(reading)) for image in images]


def _marker(images: Sequence[PosedImage], where: str) -> float | None:
    """Return the stored value that marks unknown depth, or None, and log it."""
    values = [stored_values(image.depth) for image in images if image.depth]
    known = np.concatenate([value[value > 0] for value in values] or [np.zeros(0, np.float32)])
    if not len(known):
        return None
    top, counts = np.unique(known[known >= NEAR_TOP * known.max()], return_counts=True)
    marker, count = float(top[counts.argmax()]), int(counts.max())
    below = known[known < marker].max(initial=0.0)
    typical = float(np.median(counts[top != marker])) if len(top) > 1 else 0.0
    if count < MIN_MARKED * len(known) or (
        marker < APART * below and count < PEAK * max(typical, 1.0)
    ):
        return None
    axes = [
        image.pose[:, 2]
        for image, value in zip(images, values, strict=True)
        if (value == marker).sum() >= MIN_PIXELS
    ]
    if not axes or np.ptp(axes, axis=0).max() < TURNED:
        return None
    views = [*map(Measured.of, images)]
    measured, marked = (
        [
            view._replace(confidence=np.where((value >= marker) == is_marked, view.confidence, 0))
            for view, value in zip(views, values, strict=True)
        ]
        for is_marked in (False, True)
    )
    usual, *confirmed = (
        result.agree / result.total if result.total >= MIN_PIXELS else 1.0
        for result in (
            agreement_of(measured, measured),
            agreement_of(marked, measured),
            agreement_of(measured, marked),
        )
    )
    if marker < FAR_APART * below and min(confirmed) >= MARKED * usual:
        return None
    log.warning(
        f"the value {marker:g} in the depth images of {where} is interpreted as unknown depth: "
        f"{count / sum(value.size for value in values):.0%} of the pixels have this value, which "
        "other views contradict"
    )
    return marker


def agreement_of(views: Sequence[Measured], others: Sequence[Measured]) -> Agreement:
    """Compare the points of each of the `views` with the depth that `others`, the same views,
    measure there. A point is not compared with its own view."""
    known = [view.points(view.confidence > 0) for view in views]
    points = [some[:: max(len(some) // MAX_POINTS, 1)] for some in known]
    pairs = [(i, j) for i in range(len(views)) for j in range(len(views)) if i != j]
    ratios = [others[j].ratios(points[i]) for i, j in pairs]
    ratio = np.concatenate([*ratios, np.zeros(0)])
    difference = np.abs(ratio[ratio <= 1.0 + AGREEMENT] - 1.0)
    mean = float(np.minimum(difference, 2 * AGREEMENT).mean()) if len(difference) else 0.0
    return Agreement(int((difference <= AGREEMENT).sum()), len(difference), mean)
