"""Near planes: the distance from a camera at which rays begin.

Training and renderings begin at the same near plane, which is estimated from sparse points.
`MarchConfig.near` replaces the estimate. Renderings move it closer only for close-ups.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from nerfmac.common import BoolArray, Float64Array
from nerfmac.config import NEAR
from nerfmac.geometry.bounds import Sphere
from nerfmac.geometry.cameras import Camera

NEAR_FRACTION = 0.75  # Distance of the near plane, relative to the distance of the nearest points.
OUTLIERS = 0.01  # Fraction of the nearest points in an image that are ignored as possible outliers.
MIN_POINTS_IN_IMAGE = 50  # Images with fewer points are not used to determine the near plane.
MAX_NEAR_POINTS = 2**15  # Maximum number of points that determine the near plane, evenly spaced.
NEAR_STEP = 1 / 32  # Resolution of near planes, in scene units, to share renderers.


def near_plane(points: Float64Array, cameras: Sequence[Camera]) -> float | None:
    """Return the distance of the near plane, in scene units, that training uses, or None if no
    image shows enough points. Samples that are closer to a camera are ignored.

    Without a near plane, training may place haze directly in front of a camera, where no other
    camera sees it. The haze affects only the image of this camera, but hides the scene in other
    renderings. The original NeRF code (Mildenhall et al. 2020) uses a near plane for LLFF scenes,
    at 0.9 times the depth of the nearest point. `NEAR_FRACTION` is smaller, because textureless
    surfaces have no points. `points` (n, 3) are in scene coordinates, and occlusion is ignored.
    """
    points = points[:: max(-(-len(points) // MAX_NEAR_POINTS), 1)]
    nearest = []
    for camera in cameras:
        pose = np.asarray(camera.pose, np.float64)
        _, is_seen = in_image(points, pose, camera.lens.tangents)
        if is_seen.sum() >= MIN_POINTS_IN_IMAGE:
            distance = np.linalg.norm(points[is_seen] - pose[:, 3], axis=1)
            nearest.append(float(np.quantile(distance, OUTLIERS)))
    return NEAR_FRACTION * min(nearest) if nearest else None


def closest_plane(near: float) -> float:
    """Return the smallest near plane of renderings of a run with the near plane `near`, both in
    scene units."""
    return min(near, NEAR)


def near_plane_at(position: npt.ArrayLike, near: float, subject: Sphere | None) -> float:
    """Return the near plane, in scene units, of a camera that may be closer to the subject than the
    training cameras.

    Training cannot remove haze in front of its near plane `near`, but this plane would cut off the
    front of the subject in a close-up. The result is therefore smaller if the sphere `subject` is
    closer, but at least the smaller of `near` and `NEAR`, which is also used for an unknown
    subject.
    """
    if subject is None:
        return closest_plane(near)
    center = np.asarray(subject.center, np.float64)
    free = float(np.linalg.norm(np.asarray(position, np.float64) - center)) - subject.radius
    if free >= near:
        return near
    return max(closest_plane(near), math.floor(free / NEAR_STEP) * NEAR_STEP)


def in_image(
    points: Float64Array, pose: Float64Array, tangents: tuple[float, float]
) -> tuple[Float64Array, BoolArray]:
    """Return the image positions (n, 2) of points (n, 3), where -1 and 1 are the image borders and
    y points up, and whether each point (n,) is inside the image, ignoring distortion and occlusion.
    The pose and the tangents are those of a camera in `patch_medians`."""
    x, y, z = ((points - pose[:, 3]) @ pose[:, :3]).T
    depth = np.maximum(-z, 1e-12)
    position = np.stack([x, y], axis=1) / (depth[:, None] * tangents)
    return position, (z < 0) & (np.abs(position) < 1).all(axis=1)
