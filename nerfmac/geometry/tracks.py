"""`Tracks`: which pixels of the training images show which sparse point.

Structure from motion triangulates each sparse point from the pixels that show it in several
images, its track. So each observation says how far away its pixel's surface is, that the way to
it is empty, and that its pixels in different images have one color.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from nerfmac.geometry.placement import Placement

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

MOST_OBSERVATIONS = 2**20
"""About the most observations that are kept, 32 MB."""
FEWEST_VIEWS = 3
"""Fewest training images of a track: points that two images show are often wrong."""
HELD_OUT_EVERY = 5
"""Every fifth sparse point is kept out of training, so that it can measure the surfaces."""


class Tracks(NamedTuple):
    """Observations of sparse points: each is a pixel of a image that shows a point."""

    view: Integers  # (observations,) index of the image
    pixel: Array  # (observations, 2) x right and y down, in pixels of the image
    point: Integers  # (observations,) index of the point
    points: Array  # (points, 3) positions
    error: Array  # (points,) mean reprojection error, in pixels of the images as COLMAP had them

    def __repr__(self) -> str:
        return f"Tracks({len(self.view)} observations of {len(self.points)} points)"

    def observed(self, is_kept: Flags) -> Self:
        """Return the tracks with the observations that `is_kept`, (observations,), alone."""
        kept = {name: getattr(self, name)[is_kept] for name in ("view", "pixel", "point")}
        return self._replace(**kept)

    def of_views(self, indices: Integers, factor: Array) -> Self:
        """Return the tracks in other images: view v is `indices`[v], or left out if that is -1.

        Pixel positions in view v are multiplied by `factor`[v].
        """
        view = indices[self.view]
        moved = self._replace(view=view, pixel=self.pixel * factor[self.view][:, None])
        return moved.observed(view >= 0)

    def held_out(self) -> Flags:
        """Return which points are kept out of training, bool (points,).

        They are every fifth of those that at least `FEWEST_VIEWS` images show. COLMAP sometimes has
        several points at one position; these count as one.
        """
        _, place = np.unique(self.points, axis=0, return_inverse=True)
        shown = np.bincount(place[self.point], minlength=len(self.points))
        candidates = np.flatnonzero(shown >= FEWEST_VIEWS)
        return np.isin(place, candidates[HELD_OUT_EVERY - 1 :: HELD_OUT_EVERY])

    def transformed(self, to: Placement) -> Self:
        """Return the tracks with their points in the scene space of a placement."""
        return self._replace(points=to.to_scene(self.points))

    def well_seen(self, fewest: int = FEWEST_VIEWS, most: int = MOST_OBSERVATIONS) -> Self:
        """Return the points that at least `fewest` images show, with about `most` observations.

        Of too many, points are left out with all their observations, evenly over all points.
        """
        shown = np.bincount(self.point, minlength=len(self.points))
        is_kept = shown >= fewest
        step = -(-int(shown[is_kept].sum()) // most)
        chosen = np.flatnonzero(is_kept)[:: max(step, 1)]
        number = np.full(len(self.points), -1)
        number[chosen] = np.arange(len(chosen))
        kept = self._replace(
            point=number[self.point], points=self.points[chosen], error=self.error[chosen]
        )
        return kept.observed(kept.point >= 0)


def distances_of(tracks: Tracks, eyes: npt.NDArray[Any]) -> Array:
    """Distances (observations,) from cameras, at `eyes` (views, 3), to the points they see."""
    way = tracks.points[tracks.point] - np.asarray(eyes, np.float64)[tracks.view]
    return np.linalg.norm(way, axis=1)
