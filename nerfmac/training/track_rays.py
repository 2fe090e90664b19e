"""`TrackRays`: training rays through observations of sparse points, where the depth is known.

The first rays of a step are drawn from the observations in the tracks instead of from all pixels.
The color loss applies to these rays as to all other rays. The depth loss compares their depths with
`TrackTargets`, the distances of the sparse points.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from nerfmac.common.constants import FRACTION_UNITS
from nerfmac.config import Config
from nerfmac.geometry.bounds import Bounds
from nerfmac.geometry.cameras import Cameras
from nerfmac.geometry.tracks import distances_of
from nerfmac.geometry.views import Views
from nerfmac.sampling.occupancy import march_geometry

_FRACTIONS = 3  # number of columns with fractions


class TrackTargets(NamedTuple):
    """Known distances for the first k rays of a batch, in scene units."""

    values: mx.array  # (k, 3) float32, the three properties of each ray

    @property
    def distance(self) -> mx.array:
        """Distance of the sparse point from the camera, (k,) float32."""
        return self.values[:, 0]

    @property
    def confidence(self) -> mx.array:
        """Confidence in [0, 1], computed from the reprojection error, (k,) float32."""
        return self.values[:, 1]

    @property
    def spread(self) -> mx.array:
        """Standard deviation of the distance, (k,) float32."""
        return self.values[:, 2]


@dataclass(frozen=True, eq=False)
class TrackRays:
    """Table of the observations of sparse points on the device, float32 (n, 6).

    The first three columns are the fractions with which `draw_pixels` draws the observation's
    pixel. The other columns are the `TrackTargets`.
    """

    table: mx.array

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
        cone = march_geometry(march, config.occupancy, bounds).cone
        columns = [
            fractions_of(views.cameras, tracks.view, tracks.pixel),
            np.stack([distance, confidence, np.maximum(march.step, cone * distance)], axis=1),
        ]
        return cls(mx.array(np.concatenate(columns, axis=1).astype(np.float32)))

    def draw(self, pixel_draws: mx.array, count: int) -> tuple[mx.array, TrackTargets]:
        """Replace the first `count` pixel draws with random observations, and return their targets.

        `pixel_draws` (3, rays) contains random fractions as in `draw_pixels`. The replaced
        fractions select observations with equal probability.
        """
        observations = self.table.shape[0]
        chosen = (pixel_draws[0, :count] * observations).astype(mx.int32)
        fractions, targets = mx.split(
            self.table[mx.minimum(chosen, observations - 1)], [_FRACTIONS], axis=1
        )
        draws = mx.concatenate([fractions.T, pixel_draws[:, count:]], axis=1)
        return draws, TrackTargets(targets)


def fractions_of(
    cameras: Cameras, view: npt.NDArray[np.int64], pixel: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Return the fractions (n, 3) with which `draw_pixels` draws the pixels (n, 2) of views
    (n,)."""
    sizes = np.array(cameras.sizes, np.float64)
    # The fraction is in the middle of the interval for which the alias table selects the row's own
    # view. There, rounding errors do not change the selection.
    kept = np.array(cameras.places)[view, 3] / FRACTION_UNITS
    share = (view + 0.5 * kept) / len(cameras)
    column, row = (np.floor(pixel) + 0.5).T
    return np.stack([share, row / sizes[view, 1], column / sizes[view, 0]], axis=1)
