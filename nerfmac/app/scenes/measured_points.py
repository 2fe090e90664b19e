"""Points of a scene from its depth images. They place scenes without sparse points, and determine
the near plane."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from nerfmac.app.scenes.depth_images import PIXEL_FILES, is_depth_map
from nerfmac.app.scenes.orientation import project
from nerfmac.app.scenes.parsed_scene import PosedImage
from nerfmac.common import BoolArray, Float32Array, Float64Array, log
from nerfmac.geometry import Lens, axial_directions, trusted

MAX_VIEWS, MAX_POINTS = 64, 20_000
"""Maximum number of evenly spaced views that are used, and of points."""
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
    chosen, found = evenly_spaced(images, MAX_VIEWS), []
    for view in map(Measured.of, chosen):
        points = view.points(view.confidence >= view.confidence.max(initial=1e-3))
        found.append(points[:: max(len(points) * len(chosen) // MAX_POINTS, 1)])
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
    ratios = [Measured.of(image).ratios(points) for image in evenly_spaced(images, MAX_VIEWS)]
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
