"""Description of the depth images of a scene, and comparison of depth images of different views.

A point that one view measures is projected to the other views. If the poses, the unit, and the axes
of the depth images are correct, most points have the depth that the other views measure there, or
are hidden behind a measured surface. Hidden points do not count.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nerfmac.app.scenes import Frame, Scene
from nerfmac.app.scenes.measured_points import unprojected
from nerfmac.app.scenes.posed_image import project
from nerfmac.geometry import trusted

Array = npt.NDArray[np.float64]

MAX_VIEWS, MAX_POINTS = 24, 1000
"""Maximum number of evenly spaced views that are compared, and of points of each view."""
AGREEMENT = 0.05  # Maximum relative difference of distances that agree.
MIN_AGREEMENT = 0.65
"""Minimum fraction of the points that agree in a correct scene. Measured: 0.85 to 1 in correct
scenes, whose poses and depths have errors, and at most 0.61 with a wrong unit or wrong axes."""
MIN_COMPARED = 1000  # Minimum number of points for which the fraction is computed.
FACTORS = (1e-3, 1e-2, 0.1, 0.2, 0.3048, 1 / 0.3048, 5.0, 10.0, 100.0, 1000.0)
"""Factors between units of length that are tried if the views do not agree."""


class Measured(NamedTuple):
    """Depth image of a view: its frame, depth (h, w) along the optical axis in scene units, and
    confidence (h, w)."""

    frame: Frame
    depth: npt.NDArray[np.float32]
    confidence: npt.NDArray[np.float32]


class Agreement(NamedTuple):
    """Number of projected points that agree, and of all points that are not hidden."""

    agree: int
    total: int

    @property
    def share(self) -> float:
        """Fraction of the points that agree, or NaN if there are too few points."""
        return self.agree / self.total if self.total >= MIN_COMPARED else float("nan")


def depth_report(scene: Scene) -> tuple[list[str], list[str]]:
    """Return facts and findings about the depth images of a scene, or nothing if it has none."""
    frames = [frame for part in scene.splits.values() for frame in part]
    unique = list({id(frame): frame for frame in frames if frame.depth}.values())
    if not unique:
        return [], []
    views = []
    for frame in unique[:: -(-len(unique) // MAX_VIEWS)]:
        decoded = frame.decode_depth()
        assert decoded is not None
        views.append(Measured(frame, *trusted(*decoded)))
    known = np.concatenate([view.depth[view.confidence > 0] for view in views])
    share = np.mean([(view.confidence > 0).mean() for view in views])
    height, width = views[0].depth.shape
    fact = f"depth      {len(unique)} images of {width}x{height} pixels, {share:.0%} known"
    if not len(known):
        return [fact], [
            "no depth in the depth images is known, confident, and in the range of the sensor; "
            "their unit may be wrong"
        ]
    unit = 1.0 if scene.placement is None else scene.placement.scale
    low, high = np.quantile(known, (0.01, 0.99)) / unit
    fact += f", from {low:.3g} to {high:.3g} in file units"
    agreement = agreement_of(views)
    if not np.isnan(agreement.share):
        fact += f"; {agreement.share:.0%} of the depths agree with other views"
    return [fact], _findings(views, agreement.share)


def _findings(views: Sequence[Measured], agreement: float) -> list[str]:
    if agreement >= MIN_AGREEMENT:
        return []
    within = f"within {AGREEMENT:.0%} with the depth images of other views"
    text = f"only {agreement:.0%} of the depths agree {within}"
    if np.isnan(agreement):
        text = "too few depths are visible in other views for a comparison"
    found = {factor: agreement_of(views, factor) for factor in FACTORS}
    # In a larger scale, turning cameras nearly agree. In a smaller scale, few points are in another
    # view.
    most = max(result.agree for result in found.values())
    likely = [factor for factor, result in found.items() if 2 * result.agree >= most]
    best = max(likely, key=lambda factor: np.nan_to_num(found[factor].share))
    if found[best].share >= MIN_AGREEMENT:
        return [
            f"{text}; if depths are multiplied by {best:.4g}, {found[best].share:.0%} agree, so "
            "the unit of the depth images is wrong: correct it"
        ]
    if np.isnan(agreement):
        return []
    return [
        f"{text}; the camera poses, or the axes or the unit of the depth images, are wrong: "
        "correct them, or disable the sensor loss with --train.sensor 0"
    ]


def agreement_of(views: Sequence[Measured], factor: float = 1.0) -> Agreement:
    """Compare the depth images of all pairs of views. `factor` multiplies all depths."""
    agree = total = 0
    for one in views:
        camera, depth = one.frame.camera, factor * one.depth
        points = unprojected(depth, camera.lens, camera.pose)[one.confidence > 0]
        points = points[:: max(len(points) // MAX_POINTS, 1)]
        for other in views:
            if other is not one:
                ratio = _ratios(points, other) / factor
                agree += int((np.abs(ratio - 1.0) <= AGREEMENT).sum())
                total += int((ratio <= 1.0 + AGREEMENT).sum())
    return Agreement(agree, total)


def _ratios(points: Array, view: Measured) -> Array:
    """Return the ratio of the depth of each point that is in a view to the measured depth there."""
    camera, (height, width) = view.frame.camera, view.depth.shape
    pose = np.asarray(camera.pose, np.float64)
    is_seen, pixel = project(points, pose, camera.lens.scaled(width, height))
    column, row = pixel[is_seen].astype(int).T
    is_known = view.confidence[row, column] > 0
    local = (points[is_seen][is_known] - pose[:, 3]) @ pose[:, :3]
    return np.asarray(-local[:, 2] / view.depth[row, column][is_known])
