"""Points of a scene from its depth images. They place scenes without sparse points, and determine
the near plane."""

import logging
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from nerfmac.app.scenes.depth_images import PIXEL_FILES, is_depth_map
from nerfmac.app.scenes.posed_image import PosedImage, project
from nerfmac.geometry import Lens, axial_directions, trusted

MAX_VIEWS, MAX_POINTS = 64, 20_000
"""Maximum number of evenly spaced views that are used, and of points."""
MEASURED_WITHIN = 0.99
"""Fraction of the visible measured points that the scene cube must contain. They are outliers more
rarely than sparse points."""
MIN_RATIOS = 50  # Minimum number of sparse points with a measured depth that determine a scale.

log = logging.getLogger("nerfmac")


def with_usable_depth(images: Sequence[PosedImage], where: str) -> list[PosedImage]:
    """Return the images without the depth images that do not exist or have only 8 bits, and log a
    warning about these. `where` is the scene file."""
    listed = [image.depth for image in images if image.depth]
    missing = [depth for depth in listed if not depth.path.is_file()]
    others = [depth for depth in listed if depth not in missing]
    others = [depth for depth in others if depth.path.suffix.lower() in PIXEL_FILES]
    coarse = [depth for depth in others if not is_depth_map(depth.path)]
    for unusable, why in (
        (missing, "do not exist and are ignored"),
        (coarse, "have only 8 bits per pixel instead of 16 and are ignored"),
    ):
        if unusable:
            log.warning(
                f"{len(unusable)} depth images of {where} {why}, such as {unusable[0].path}"
            )
    ignored = {*missing, *coarse}
    return [image._replace(depth=None) if image.depth in ignored else image for image in images]


def measured_points(images: Sequence[PosedImage]) -> npt.NDArray[np.float64] | None:
    """Return points (n, 3) in file coordinates that the depth images measure with the highest
    confidence, or None if no image has a depth image."""
    chosen, found = _with_depth(images), []
    for image in chosen:
        depth, confidence = _trusted_depth(image)
        points = unprojected(depth, image.lens, image.pose)
        points = points[confidence >= confidence.max(initial=1e-3)]
        found.append(points[:: max(len(points) * len(chosen) // MAX_POINTS, 1)])
    return np.concatenate(found) if found else None


def _with_depth(images: Sequence[PosedImage]) -> list[PosedImage]:
    """Return at most `MAX_VIEWS` evenly spaced images that have a depth image."""
    chosen = [image for image in images if image.depth is not None]
    return chosen[:: -(-max(len(chosen), 1) // MAX_VIEWS)]


def _trusted_depth(
    image: PosedImage,
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Return the trusted depth (h, w) of an image, and its confidence (h, w)."""
    assert image.depth is not None
    return trusted(*image.depth.along_axis(image.lens))


def in_scale_of_points(
    images: Sequence[PosedImage], points: npt.NDArray[np.float64], where: str
) -> list[PosedImage]:
    """Return the images with depth images in the scale of sparse points (n, 3) in file coordinates:
    the most frequent ratio of the depth of a point to the measured depth. `where` is the scene
    file."""
    ratios = []
    for image in _with_depth(images):
        depth, confidence = _trusted_depth(image)
        height, width = depth.shape
        is_seen, pixel = project(points, image.pose, image.lens.scaled(width, height))
        column, row = pixel[is_seen].astype(int).T
        is_known = confidence[row, column] > 0
        local = (points[is_seen] - image.pose[:, 3]) @ image.pose[:, :3]
        ratios.append((-local[:, 2] / np.where(is_known, depth[row, column], 1.0))[is_known])
    found = np.concatenate(ratios) if ratios else np.zeros(0)
    if len(found) < MIN_RATIOS:
        return list(images)
    # Points behind a measured surface are hidden, and their ratios are larger. Therefore, the most
    # frequent ratio is used instead of the median.
    scale = float(np.exp(_mode(np.log(found))))
    log.info("the depth images of %s are scaled by %.4g to the sparse points", where, scale)
    return [image._replace(depth=image.depth and image.depth.scaled(scale)) for image in images]


def _mode(values: npt.NDArray[np.float64]) -> float:
    """Return the median of the shortest interval that contains half of the values."""
    values = np.sort(values)
    half = (len(values) + 1) // 2
    lengths = values[half - 1 :] - values[: len(values) - half + 1]
    first = int(lengths.argmin())
    return float(np.median(values[first : first + half]))


def unprojected(
    depth: npt.NDArray[np.float32], lens: Lens, pose: npt.NDArray[np.floating]
) -> npt.NDArray[np.float64]:
    """Return the positions (h, w, 3) that have a depth (h, w) along the optical axis of a camera,
    in the coordinates of its pose (3, 4)."""
    local = depth[..., None] * axial_directions(depth.shape, lens) * (1.0, -1.0, -1.0)
    return np.asarray(local @ pose[:, :3].T + pose[:, 3], np.float64)
