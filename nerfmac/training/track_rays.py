"""`TrackRays`: training rays through observations of sparse points, where the depth is known.

The first rays of a step are drawn from the observations in the tracks instead of from all pixels.
The color loss applies to these rays as to all other rays. The depth loss compares their depths with
the distances of the sparse points.
"""

from dataclasses import dataclass
from typing import Self

import mlx.core as mx
import numpy as np

from nerfmac.common import Float64Array, Int64Array
from nerfmac.config import Config
from nerfmac.geometry import Bounds, Cameras, Views, distances_of


@dataclass(frozen=True, eq=False)
class TrackRays:
    """Table of the observations of sparse points on the device."""

    pixel: mx.array  # (n,) int32, index of the pixel of each observation
    targets: mx.array  # (n, 3) float32, distances, confidences, and standard deviations

    @classmethod
    def of(cls, views: Views, config: Config, bounds: Bounds) -> Self | None:
        """Create the table from observations of points inside the scene cube and beyond the near
        plane.

        If no point is in this region, the result is None.

        As in DS-NeRF (Deng et al. 2022, section 3.2), the confidence is exp(-(e / mean e)^2) for a
        reprojection error e. The standard deviation is the length of a marching step at the point's
        distance, because samples are not closer together.
        """
        if views.tracks is None:
            return None
        tracks, march = views.tracks, config.march
        distance = distances_of(tracks, np.array(views.cameras.poses[:, :, 3]))
        is_inside = np.asarray(bounds.holds(tracks.points))[tracks.point]
        is_reached = is_inside & (distance > march.near_plane)
        tracks, distance = tracks.observed(is_reached), distance[is_reached]
        if not len(distance):
            return None
        error = tracks.error[tracks.point]
        confidence = np.exp(-np.square(error / max(float(error.mean()), 1e-9)))
        spread = np.maximum(march.step, march.cone * distance)
        targets = np.stack([distance, confidence, spread], axis=1).astype(np.float32)
        pixel = pixels_of(views.cameras, tracks.view, tracks.pixel)
        return cls(mx.array(pixel.astype(np.int32)), mx.array(targets))

    def draw(self, index: mx.array, fraction: mx.array, count: int) -> tuple[mx.array, mx.array]:
        """Replace the first `count` pixels with random observations, and return their targets.

        `index` (rays,) contains the indices of pixels. The first values of `fraction` (rays,), in
        [0, 1), select observations with equal probability.
        """
        observations = self.pixel.shape[0]
        chosen = mx.minimum((fraction[:count] * observations).astype(mx.int32), observations - 1)
        replaced = mx.concatenate([self.pixel[chosen], index[count:]])
        return replaced, self.targets[chosen]


def pixels_of(cameras: Cameras, view: Int64Array, pixel: Float64Array) -> Int64Array:
    """Return the index (n,) among the pixels of all views of each pixel (n, 2) of the views
    (n,)."""
    first = np.array(cameras.places)[view, 0].astype(np.int64)
    column, row = np.floor(pixel).astype(np.int64).T
    return first + row * np.array(cameras.sizes)[view, 0] + column
