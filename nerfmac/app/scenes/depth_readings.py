"""Readings of depth images: the unit, depth along the optical axis or along the ray, and a marker
of unknown depth. Scene files often do not specify them correctly, but the images of different views
must agree.

A point that one view measures is projected to the other views. If the poses and the reading are
correct, most points have the depth that the other views measure there, or are hidden behind a
measured surface. Hidden points do not count.
"""

import logging
from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nerfmac.app.scenes.depth_images import AS_STORED, DepthReading, stored_values
from nerfmac.app.scenes.measured_points import (
    in_scale_of_points,
    unprojected,
    with_usable_depth,
)
from nerfmac.app.scenes.posed_image import PosedImage, project
from nerfmac.geometry import Lens, trusted

Array = npt.NDArray[np.float64]

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

log = logging.getLogger("nerfmac")


class Measured(NamedTuple):
    """Depth image of a view: its camera, depth (h, w) along the optical axis, and confidence
    (h, w). Lengths are in the units of the pose (3, 4)."""

    lens: Lens
    pose: npt.NDArray[np.floating]
    depth: npt.NDArray[np.float32]
    confidence: npt.NDArray[np.float32]


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
    images: Sequence[PosedImage], points: Array | None, where: str, given: DepthReading | None
) -> tuple[list[PosedImage], DepthReading]:
    """Return the images with the depth images that can be used, and the reading of their values:
    `given`, or the best one. If `points` is not None, the poses have the scale of these sparse
    points (n, 3), and so have the resulting depths. `where` is the scene file."""
    usable = with_usable_depth(images, where)
    reading = given or best_reading(usable, where, has_unit=points is None)
    read = [image._replace(depth=image.depth and image.depth.read_as(reading)) for image in usable]
    return read if points is None else in_scale_of_points(read, points, where), reading


def best_reading(images: Sequence[PosedImage], where: str, *, has_unit: bool) -> DepthReading:
    """Return the reading of the depth images with which the views agree best, if it is clearly
    better than the reading of the files, and log it. `has_unit` is False if the poses have a scale
    of their own. `where` is the scene file."""
    chosen = [image for image in images if image.depth is not None]
    chosen = chosen[:: -(-max(len(chosen), 1) // MAX_VIEWS)]
    given = AS_STORED._replace(marker=_marker(chosen, where))
    before = agreement_of(_measured(chosen, given))
    factors = FACTORS if has_unit and not before.share >= MIN_AGREEMENT else FACTORS[:1]
    found = {
        reading: agreement_of(_measured(chosen, reading))
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


def _measured(images: Sequence[PosedImage], reading: DepthReading) -> list[Measured]:
    views = []
    for image in images:
        assert image.depth is not None
        decoded = image.depth.read_as(reading).along_axis(image.lens)
        views.append(Measured(image.lens, image.pose, *trusted(*decoded)))
    return views


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
    views = _measured(images, AS_STORED)
    is_marked = [value >= marker for value in values]
    measured = [
        view._replace(confidence=np.where(marked, 0, view.confidence))
        for view, marked in zip(views, is_marked, strict=True)
    ]
    marked = [
        view._replace(confidence=np.where(marked, view.confidence, 0))
        for view, marked in zip(views, is_marked, strict=True)
    ]
    usual = _share(measured, measured)
    confirmed = min(_share(marked, measured), _share(measured, marked))
    if marker < FAR_APART * below and confirmed >= MARKED * usual:
        return None
    log.warning(
        f"the value {marker:g} in the depth images of {where} is interpreted as unknown depth: "
        f"{count / sum(value.size for value in values):.0%} of the pixels have this value, which "
        "other views contradict"
    )
    return marker


def _share(views: Sequence[Measured], others: Sequence[Measured]) -> float:
    """Return the fraction of the points of `views` that have the depth that `others`, the same
    views, measure there, or 1 if there are too few points. Hidden points do not count."""
    found = [
        _ratios(_points_of(view), other)
        for index, view in enumerate(views)
        for number, other in enumerate(others)
        if number != index
    ]
    ratio = np.concatenate([*found, np.zeros(0)])
    ratio = ratio[ratio <= 1.0 + AGREEMENT]
    return float((ratio >= 1.0 - AGREEMENT).mean()) if len(ratio) >= MIN_PIXELS else 1.0


def _points_of(view: Measured) -> Array:
    points = unprojected(view.depth, view.lens, view.pose)[view.confidence > 0]
    return points[:: max(len(points) // MAX_POINTS, 1)]


def agreement_of(views: Sequence[Measured]) -> Agreement:
    """Compare the depth images of all pairs of views."""
    agree = total = 0
    difference = 0.0
    for one in views:
        points = _points_of(one)
        for other in views:
            if other is not one:
                ratio = _ratios(points, other)
                agree += int((np.abs(ratio - 1.0) <= AGREEMENT).sum())
                shown = ratio[ratio <= 1.0 + AGREEMENT]
                total += len(shown)
                difference += float(np.minimum(np.abs(shown - 1.0), 2 * AGREEMENT).sum())
    return Agreement(agree, total, difference / max(total, 1))


def _ratios(points: Array, view: Measured) -> Array:
    """Return the ratio of the depth of each point that is in a view to the measured depth there."""
    height, width = view.depth.shape
    pose = np.asarray(view.pose, np.float64)
    is_seen, pixel = project(points, pose, view.lens.scaled(width, height))
    column, row = pixel[is_seen].astype(int).T
    is_known = view.confidence[row, column] > 0
    local = (points[is_seen][is_known] - pose[:, 3]) @ pose[:, :3]
    return np.asarray(-local[:, 2] / view.depth[row, column][is_known])
