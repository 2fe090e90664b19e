"""What depth images measure: points, and their readings.

Points from depth images place scenes without sparse points, and determine the near plane.

A reading is the unit, depth along the optical axis or along the ray, and a marker of unknown depth.
Scene files often do not specify them correctly, but the images of different views must agree. A
point that one view measures is projected to the other views. If the poses and the reading are
correct, most points have the depth that the other views measure there, or are hidden behind a
measured surface. Hidden points do not count.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import product
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from nerfmac.app.scenes import depth_images
from nerfmac.app.scenes.depth_images import AS_STORED, PIXEL_FILES, DepthReading, is_depth_map
from nerfmac.app.scenes.orientation import project
from nerfmac.app.scenes.parsed_scene import ParsedScene, PosedImage
from nerfmac.common import BoolArray, Float32Array, Float64Array, log
from nerfmac.geometry import Lens, axial_directions, trusted

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
PLACED_VIEWS, PLACED_POINTS = 64, 20_000
"""Maximum number of evenly spaced views, and of their points, that place a scene."""
MEASURED_WITHIN = 0.99
"""Fraction of the visible measured points that the scene cube must contain. They are outliers more
rarely than sparse points."""
MIN_RATIOS = 50  # Minimum number of sparse points with a measured depth that determine a scale.


class Measured(NamedTuple):
    """Depth image of a view: its camera, depth (h, w) along the optical axis, and confidence
    (h, w). Lengths are in the units of the pose (3, 4)."""

    lens: Lens
    pose: npt.NDArray[np.floating]
    depth: Float32Array
    confidence: Float32Array

    @classmethod
    def of(cls, image: PosedImage) -> Self:
        """Decode the depth image of a photo, without depths that are not trusted."""
        assert image.depth is not None
        return cls(image.lens, image.pose, *trusted(*image.depth.along_axis(image.lens)))

    def points(self, chosen: BoolArray) -> Float64Array:
        """Return the points (n, 3) of the pixels `chosen` (h, w), in the coordinates of the
        pose."""
        local = self.depth[..., None] * axial_directions(self.depth.shape, self.lens)
        positions = local * (1.0, -1.0, -1.0) @ self.pose[:, :3].T + self.pose[:, 3]
        return np.asarray(positions, np.float64)[chosen]

    def ratios(self, points: Float64Array) -> Float64Array:
        """Return the ratio of the depth of each point (n, 3) that is in the view to the measured
        depth there."""
        pose = np.asarray(self.pose, np.float64)
        is_seen, pixel = project(points, pose, self.lens.scaled(*self.depth.shape[::-1]))
        column, row = pixel[is_seen].astype(int).T
        is_known = self.confidence[row, column] > 0
        local = (points[is_seen][is_known] - pose[:, 3]) @ pose[:, :3]
        return np.asarray(-local[:, 2] / self.depth[row, column][is_known])


def with_usable_depth(images: Sequence[PosedImage], where: str) -> list[PosedImage]:
    """Return the images without the depth images that do not exist or have only 8 bits, and log a
    warning about these. `where` is the scene file."""
    ignored = {}
    for depth in (image.depth for image in images if image.depth):
        if not depth.path.is_file():
            ignored[depth] = "do not exist and are ignored"
        elif depth.path.suffix.lower() in PIXEL_FILES and not is_depth_map(depth.path):
            ignored[depth] = "have only 8 bits per pixel instead of 16 and are ignored"
    for why, count in Counter(ignored.values()).items():
        first = next(depth.path for depth in ignored if ignored[depth] == why)
        log.warning(f"{count} depth images of {where} {why}, such as {first}")
    return [image._replace(depth=None) if image.depth in ignored else image for image in images]


def measured_points(images: Sequence[PosedImage]) -> Float64Array | None:
    """Return points (n, 3) in file coordinates that the depth images measure with the highest
    confidence, or None if no image has a depth image."""
    chosen, found = evenly_spaced(images, PLACED_VIEWS), []
    for view in map(Measured.of, chosen):
        points = view.points(view.confidence >= view.confidence.max(initial=1e-3))
        found.append(points[:: max(len(points) * len(chosen) // PLACED_POINTS, 1)])
    return np.concatenate(found) if found else None


def evenly_spaced(images: Sequence[PosedImage], count: int) -> list[PosedImage]:
    """Return at most `count` evenly spaced images that have a depth image."""
    chosen = [image for image in images if image.depth is not None]
    return chosen[:: -(-max(len(chosen), 1) // count)]


def in_scale_of_points(
    images: Sequence[PosedImage], points: Float64Array, where: str
) -> list[PosedImage]:
    """Return the images with depth images in the scale of sparse points (n, 3) in file coordinates:
    the most frequent ratio of the depth of a point to the measured depth. `where` is the scene
    file."""
    ratios = [Measured.of(image).ratios(points) for image in evenly_spaced(images, PLACED_VIEWS)]
    found = np.concatenate(ratios) if ratios else np.zeros(0)
    if len(found) < MIN_RATIOS:
        return list(images)
    # Points behind a measured surface are hidden, and their ratios are larger. Therefore, the most
    # frequent ratio is used instead of the median.
    scale = float(np.exp(_mode(np.log(found))))
    log.info("the depth images of %s are scaled by %.4g to the sparse points", where, scale)
    return [image._replace(depth=image.depth and image.depth.scaled(scale)) for image in images]


def _mode(values: Float64Array) -> float:
    """Return the median of the shortest interval that contains half of the values."""
    values = np.sort(values)
    half = (len(values) + 1) // 2
    lengths = values[half - 1 :] - values[: len(values) - half + 1]
    first = int(lengths.argmin())
    return float(np.median(values[first : first + half]))


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
    parsed: ParsedScene, given: DepthReading | None
) -> tuple[list[PosedImage], DepthReading]:
    """Return the images with the depth images that can be used, and the reading of their values:
    `given`, or the best one. If the poses have the scale of the sparse points instead of that of
    the depth images, the resulting depths have it, too."""
    where, points = parsed.source, None if parsed.is_metric else parsed.points
    usable = with_usable_depth(parsed.images, where)
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
    values = [depth_images.stored_values(image.depth) for image in images if image.depth]
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
