"""Surface metrics: depth errors, with sparse points or depth maps as the truth.

PSNR does not measure how far away the density along a ray is. Rendered depth is therefore compared
with the distances from the camera to sparse points that were excluded from training. Sparse points
exist only on textured surfaces, so other pixels are compared with the ground plane of the points
(see `nerfmac.geometry.ground_planes`), if their rays intersect the plane inside the convex hull of
the points on the plane. Objects in front of the plane count as errors, so even a perfect field has
pixels with an error. Compare this metric only between runs of the same scene. In views with depth
maps, `relative_errors` compares the rendered depth with the depth that a sensor has measured.
"""

from typing import NamedTuple

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from nerfmac.geometry import Views
from nerfmac.ops.sensor_depth import sensor_depth


class DepthErrors(NamedTuple):
    """Statistics of relative depth errors. Errors are fractions of the true distance."""

    median: float
    p90: float
    """90th percentile of the errors."""
    within_3_percent: float
    """Fraction of the errors that are at most 3 %."""
    number: int


def depth_errors(errors: npt.ArrayLike) -> DepthErrors | None:
    """Return statistics of relative depth errors |rendered / true - 1|, or None if no error is
    known. Errors that are NaN do not count."""
    known = np.asarray(errors, np.float64).ravel()
    known = known[~np.isnan(known)]
    if not len(known):
        return None
    median, p90 = np.quantile(known, (0.5, 0.9))
    return DepthErrors(float(median), float(p90), float((known <= 0.03).mean()), len(known))


def relative_errors(views: Views, index: int, depth: mx.array) -> mx.array | None:
    """Return the relative error of rendered depth at each pixel, or None without depth maps.

    Args:
        views: Views, with or without depth maps.
        index: Index of the view.
        depth: (h, w) float32, rendered distances in scene units.

    Returns:
        float32 array (h, w), NaN where the measured distance is unknown or the pixel is masked.
    """
    if views.depth is None:
        return None
    pixel = views.cameras.places[index, 0] + mx.arange(depth.size)
    view = mx.full(pixel.shape, index, mx.int32)
    known = sensor_depth(views.depth, views.cameras, pixel, view)
    is_known = known[:, 1] > 0
    kept = views.kept_of(index)
    if kept is not None:
        is_known = is_known & kept.reshape(-1)
    error = mx.where(is_known, mx.abs(depth.reshape(-1) / known[:, 0] - 1.0), mx.nan)
    return error.reshape(depth.shape)
