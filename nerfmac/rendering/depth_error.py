"""Comparison of rendered depth with the depth maps of a sensor."""

from typing import NamedTuple

import mlx.core as mx
import numpy as np

from nerfmac.geometry.views import Views
from nerfmac.ops.sensor_depth import sensor_depth


class DepthError(NamedTuple):
    """Relative error of the rendered depth in one view, |rendered / measured - 1|."""

    median: float
    p90: float  # 90th percentile


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


def depth_error(errors: mx.array | None) -> DepthError | None:
    """Return the median and the 90th percentile of the result of `relative_errors`, or None if no
    distance in the view is known."""
    if errors is None:
        return None
    values = np.array(errors).ravel()
    values = values[~np.isnan(values)]
    if not len(values):
        return None
    return DepthError(*(float(value) for value in np.quantile(values, (0.5, 0.9))))
