"""Points of a scene from its depth images. They place scenes without sparse points, and determine
the near plane."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from nerfmac.app.scenes.posed_image import PosedImage
from nerfmac.geometry.depth_maps import axial_directions, trusted
from nerfmac.geometry.lenses import Lens

MAX_VIEWS, MAX_POINTS = 64, 20_000
"""Maximum number of evenly spaced views that are used, and of points."""
MEASURED_WITHIN = 0.99
"""Fraction of the visible measured points that the scene cube must contain. They are outliers more
rarely than sparse points."""

log = logging.getLogger("nerfmac")


def with_existing_depth(images: Sequence[PosedImage], where: str) -> list[PosedImage]:
    """Return the images without depth images that do not exist, and log a warning about these.
    `where` is the scene file."""
    missing = [
        image.depth.path for image in images if image.depth and not image.depth.path.is_file()
    ]
    if missing:
        log.warning(
            f"{len(missing)} depth images of {where} do not exist and are ignored, such as "
            f"{missing[0]}"
        )
    return [
        image._replace(depth=None) if image.depth and image.depth.path in missing else image
        for image in images
    ]


def measured_points(images: Sequence[PosedImage]) -> npt.NDArray[np.float64] | None:
    """Return points (n, 3) in file coordinates that the depth images measure with the highest
    confidence, or None if no image has a depth image."""
    chosen = [image for image in images if image.depth is not None]
    if not chosen:
        return None
    chosen = chosen[:: -(-len(chosen) // MAX_VIEWS)]
    found = []
    for image in chosen:
        assert image.depth is not None
        depth, confidence = trusted(*image.depth.decode((image.lens.width, image.lens.height)))
        points = unprojected(depth, image.lens, image.pose)
        points = points[confidence >= confidence.max(initial=1e-3)]
        found.append(points[:: max(len(points) * len(chosen) // MAX_POINTS, 1)])
    return np.concatenate(found)


def unprojected(
    depth: npt.NDArray[np.float32], lens: Lens, pose: npt.NDArray[np.floating]
) -> npt.NDArray[np.float64]:
    """Return the positions (h, w, 3) that have a depth (h, w) along the optical axis of a camera,
    in the coordinates of its pose (3, 4)."""
    local = depth[..., None] * axial_directions(depth.shape, lens) * (1.0, -1.0, -1.0)
    return np.asarray(local @ pose[:, :3].T + pose[:, 3], np.float64)
