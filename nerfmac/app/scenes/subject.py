"""`find_subject`: the sphere around what the cameras look at, from the sparse points.

The subject's points are in the middle of most photos. The points of a background are not: they move
through the photos as the camera moves around the subject. So no point has to be matched to photos.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from nerfmac.app.scenes.sparse_points import MOST_POINTS, MOST_VIEWS, in_image
from nerfmac.geometry.bounds import Sphere
from nerfmac.geometry.cameras import Camera

MIDDLE = 0.5
"""Width and height of the middle of a photo, as a fraction of the photo's."""

MOST_CAMERAS = 0.7
"""Fraction of the cameras that show a point of the subject in the middle of their photos."""

FEWEST_POINTS = 20
"""Smallest number of points that make a subject."""

INSIDE = 0.9
"""Fraction of the subject's points that the sphere contains."""


def find_subject(
    points: npt.NDArray[np.float64] | None, cameras: Sequence[Camera]
) -> Sphere | None:
    """Return the sphere around the subject of `cameras`, in scene units.

    Args:
        points: sparse points (n, 3) in scene space, if there are any. Occlusion is ignored.
        cameras: training cameras. Lens distortion is ignored.

    Returns:
        The sphere, or None if fewer than `FEWEST_POINTS` points are in the middle of most photos,
        as in a room whose cameras look outwards.
    """
    if points is None or not len(points) or not cameras:
        return None
    points = points[:: -(-len(points) // MOST_POINTS)]
    chosen = cameras[:: -(-len(cameras) // MOST_VIEWS)]
    shown = np.zeros(len(points))
    for camera in chosen:
        pose = np.asarray(camera.pose, np.float64)
        position, is_seen = in_image(points, pose, camera.lens.tangents)
        shown += is_seen & (np.abs(position) < MIDDLE).all(axis=1)
    points = points[shown >= MOST_CAMERAS * len(chosen)]
    if len(points) < FEWEST_POINTS:
        return None
    center = np.median(points, axis=0)
    radius = np.quantile(np.linalg.norm(points - center, axis=1), INSIDE)
    x, y, z = (float(value) for value in center)
    return Sphere((x, y, z), float(radius)) if radius > 0.0 else None
