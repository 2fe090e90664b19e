"""`Tracks`: observations of sparse points in images. Structure from motion triangulates each point
from its track, the pixels in several images that show the point. An observation determines the
distance to the surface at its pixel, and all observations of a point have its color."""

from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from nerfmac.common import BoolArray, Float64Array, Int64Array
from nerfmac.geometry.placement import Placement

MOST_OBSERVATIONS = 2**20
"""Approximate maximum number of observations, which use 32 MB of memory."""
FEWEST_VIEWS = 3
"""Minimum number of training images that show a point. The positions of points in only two images
are often wrong."""
HELD_OUT_EVERY = 5
"""Interval between two points that are excluded from training. The excluded points are used to
evaluate surfaces."""


class Tracks(NamedTuple):
    """Observations of sparse points. Each observation is an image pixel that shows a point."""

    view: Int64Array  # (observations,) index of the image.
    pixel: Float64Array  # (observations, 2) x right and y down, in image pixels.
    point: Int64Array  # (observations,) index of the point.
    points: Float64Array  # (points, 3) point positions.
    error: Float64Array  # (points,) mean reprojection error, in pixels of COLMAP's images.

    def __repr__(self) -> str:
        return f"Tracks({len(self.view)} observations of {len(self.points)} points)"

    def observed(self, is_kept: BoolArray) -> Self:
        """Return the tracks with only the observations for which `is_kept` (observations,) is
        True."""
        kept = {name: getattr(self, name)[is_kept] for name in ("view", "pixel", "point")}
        return self._replace(**kept)

    def of_views(self, indices: Int64Array, factor: Float64Array) -> Self:
        """Return the tracks with views and pixels converted to another set of images.

        Args:
            indices: Index (views,) of each view in the other set of images, or -1 to drop the
                view's observations.
            factor: Scale factor (views,) for the pixel positions in each view.
        """
        view = indices[self.view]
        moved = self._replace(view=view, pixel=self.pixel * factor[self.view][:, None])
        return moved.observed(view >= 0)

    def held_out(self) -> BoolArray:
        """Return which points are excluded from training, bool (points,).

        Every fifth point that is visible in at least `FEWEST_VIEWS` images is excluded. If COLMAP
        has reconstructed several points at the same position, these points count as a single point.
        """
        _, place = np.unique(self.points, axis=0, return_inverse=True)
        shown = np.bincount(place[self.point], minlength=len(self.points))
        candidates = np.flatnonzero(shown >= FEWEST_VIEWS)
        return np.isin(place, candidates[HELD_OUT_EVERY - 1 :: HELD_OUT_EVERY])

    def transformed(self, to: Placement) -> Self:
        """Return the tracks with their points converted to scene coordinates by a placement."""
        return self._replace(points=to.to_scene(self.points))

    def well_seen(self, fewest: int = FEWEST_VIEWS, most: int = MOST_OBSERVATIONS) -> Self:
        """Return the tracks of points in at least `fewest` images, with about `most` observations.

        If there are too many observations, an evenly spaced subset of the points is kept, with all
        observations of each point.
        """
        shown = np.bincount(self.point, minlength=len(self.points))
        is_kept = shown >= fewest
        step = -(-int(shown[is_kept].sum()) // most)
        chosen = np.flatnonzero(is_kept)[:: max(step, 1)]
        number = np.full(len(self.points), -1)
        number[chosen] = np.arange(len(chosen))
        points, error = self.points[chosen], self.error[chosen]
        kept = self._replace(point=number[self.point], points=points, error=error)
        return kept.observed(kept.point >= 0)


def distances_of(tracks: Tracks, eyes: npt.NDArray[Any]) -> Float64Array:
    """Return the distance (observations,) of each observed point from its camera. `eyes` (views, 3)
    contains the camera positions."""
    way = tracks.points[tracks.point] - np.asarray(eyes, np.float64)[tracks.view]
    return np.linalg.norm(way, axis=1)
