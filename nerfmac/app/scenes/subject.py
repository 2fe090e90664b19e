"""`find_subject` finds the sphere around the object that the cameras look at, from sparse
points.

The points of the subject are in the middle of most photos. In contrast, background points change
their image position when the camera moves around the subject. Therefore, the projected positions of
the points are sufficient to find the subject, without matches between points and photos.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from nerfmac.app.scenes.sparse_points import MAX_POINTS, MAX_VIEWS, in_image
from nerfmac.geometry.bounds import Sphere
from nerfmac.geometry.cameras import Camera

MIDDLE = 0.5
"""Width and height of the central region of a photo, relative to the size of the photo."""

MIN_CAMERAS = 0.7
"""A point belongs to the subject if at least this fraction of the cameras show it in the central
region of their photos."""

MIN_POINTS = 20
"""Minimum number of points of a subject."""

INSIDE = 0.9
"""Fraction of the subject points that the sphere contains."""


def find_subject(
    points: npt.NDArray[np.float64] | None, cameras: Sequence[Camera]
) -> Sphere | None:
    """Find the sphere around the object that the cameras look at, from sparse points (n, 3) in
    scene space.

    Occlusion and lens distortion are ignored. If fewer than `MIN_POINTS` points are in the central
    region of most photos, as in a room with outward-facing cameras, the result is None.
    """
    if points is None or not len(points) or not cameras:
        return None
    points = points[:: -(-len(points) // MAX_POINTS)]
    chosen = cameras[:: -(-len(cameras) // MAX_VIEWS)]
    shown = np.zeros(len(points))
    for camera in chosen:
        pose = np.asarray(camera.pose, np.float64)
        position, is_seen = in_image(points, pose, camera.lens.tangents)
        shown += is_seen & (np.abs(position) < MIDDLE).all(axis=1)
    points = points[shown >= MIN_CAMERAS * len(chosen)]
    if len(points) < MIN_POINTS:
        return None
    center = np.median(points, axis=0)
    radius = np.quantile(np.linalg.norm(points - center, axis=1), INSIDE)
    x, y, z = (float(value) for value in center)
    return Sphere((x, y, z), float(radius)) if radius > 0.0 else None
