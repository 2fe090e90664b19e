"""`DepthMaps`: depth images of a sensor, such as the LiDAR of a phone, for the views of a split.

Depth maps are stored at their own resolution, which is usually lower than that of the images, and
cover the same field of view as their images.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import mlx.core as mx
import numpy as np

from nerfmac.common import BoolArray, Float32Array, checks
from nerfmac.geometry.cameras import shown_sizes
from nerfmac.geometry.lenses import Lens
from nerfmac.geometry.rays import directions

Map = tuple[Float32Array, Float32Array]

EDGE = 0.05
"""Minimum second difference of the inverse distance between neighboring pixels, relative to the
inverse distance, at a depth edge. The inverse depth of a plane is linear in the image."""
SURE = 255  # Stored value of the confidence 1.


@dataclass(frozen=True, eq=False)
class DepthMaps:
    """Depth maps of the views of a split, on the device.

    Attributes:
        distances: float32 (pixels,), distance along the ray in scene units, map by map in row-major
            order. The distance is 0 if it is unknown.
        confidences: uint8 (pixels,), confidence times 255, or 0 if the distance is unknown.
        places: int32 (views, 3). Each row contains the index of the first pixel of a view's map,
            and the height and the width of the map. A view without a map has a map of one unknown
            pixel.
        is_metric: Whether the poses are in the sensor's units. If not, the distances are correct
            only up to a scale and a shift.
    """

    distances: mx.array
    confidences: mx.array
    places: mx.array
    is_metric: bool = True

    def __post_init__(self) -> None:
        count = self.distances.shape[0]
        checks.shape("distances", self.distances, (None,))
        checks.shape("confidences", self.confidences, (count,))
        checks.shape("places", self.places, (None, 3))

    @classmethod
    def stack(cls, maps: Sequence[Map | None], *, is_metric: bool = True) -> DepthMaps:
        """Stack the maps of views.

        Args:
            maps: For each view, the distance (h, w) along the rays in scene units and the
                confidence (h, w) in [0, 1], from `trusted`, or None if the view has no map.
            is_metric: Whether the poses are in the sensor's units.

        Returns:
            The maps on the device.
        """
        unknown = np.zeros((1, 1), np.float32)
        given = [(unknown, unknown) if each is None else each for each in maps]
        sizes = np.array([distance.shape for distance, _ in given])
        first = np.cumsum([0, *(sizes[:-1, 0] * sizes[:-1, 1])])
        distances = np.concatenate([distance.ravel() for distance, _ in given])
        confidences = np.concatenate([confidence.ravel() for _, confidence in given])
        return cls(
            mx.array(distances.astype(np.float32)),
            mx.array(np.rint(SURE * confidences).astype(np.uint8)),
            mx.array(np.column_stack([first, sizes]).astype(np.int32)),
            is_metric,
        )

    def __repr__(self) -> str:
        sizes = [(width, height) for _, height, width in np.array(self.places).tolist()]
        return f"DepthMaps({len(sizes)} of {shown_sizes(sizes)})"

    def moved(self, scale: float, shift: float) -> DepthMaps:
        """Return a copy in which all known distances are multiplied by `scale` and then increased
        by `shift`, in scene units."""
        is_known = self.confidences > 0
        moved = mx.where(is_known, mx.maximum(scale * self.distances + shift, 1e-3), 0.0)
        return replace(self, distances=moved)


def along_rays(depth: Float32Array, lens: Lens) -> Float32Array:
    """Convert depths along the optical axis to distances along the rays.

    Args:
        depth: (h, w) depths. The image has the field of view of `lens`, but may have another size.
        lens: Camera intrinsics of the photo.

    Returns:
        Distances (h, w), float32, in the units of `depth`.
    """
    ratio = np.linalg.norm(axial_directions(depth.shape, lens), axis=2)
    return np.asarray(depth * ratio, np.float32)


def axial_directions(shape: tuple[int, ...], lens: Lens) -> Float32Array:
    """Return the direction (h, w, 3) of each pixel of an image with the field of view of `lens` and
    the `shape` (h, w). Directions have x right, y down, and z forward, and z is 1, so that a depth
    along the optical axis times the direction is a position. The direction is 0 where a fisheye
    lens sees points that are not in front of the camera."""
    height, width = shape
    lens = lens.scaled(width, height)
    row, column = np.mgrid[:height, :width].reshape(2, -1) + 0.5
    point = np.stack([(column - lens.cx) / lens.fl_x, (row - lens.cy) / lens.fl_y], axis=1)
    distortion = None
    if lens.is_distorted:
        distortion = mx.array([[*lens.distortion, float(lens.is_fisheye)]])
        distortion = mx.broadcast_to(distortion, (len(point), 7))
    seen = np.array(directions(mx.array(point, mx.float32), distortion, lens.is_fisheye))
    ahead = np.where(seen[:, 2:] > 1e-3, seen[:, 2:], np.inf)
    return np.asarray((seen / ahead).reshape(height, width, 3), np.float32)


def trusted(distance: Float32Array, confidence: Float32Array) -> Map:
    """Return distances and confidences in which pixels at depth edges are unknown.

    Sensors interpolate depth at the edges of objects, so the distances there belong to no surface.

    Args:
        distance: (h, w) distance along the rays, or 0 if unknown.
        confidence: (h, w) confidence in [0, 1].

    Returns:
        Distance and confidence (h, w), float32. Both are 0 where the distance is unknown.
    """
    known = (distance > 0) & (confidence > 0) & ~at_edges(distance)
    return (known * distance).astype(np.float32), (known * confidence).astype(np.float32)


def at_edges(distance: Float32Array) -> BoolArray:
    """Return which pixels (h, w) of a depth map are at a depth edge, or next to such a pixel.
    Unknown pixels have the distance 0 and are not edges."""
    inverse = np.divide(1.0, distance, out=np.zeros(distance.shape), where=distance > 0)
    is_edge = np.zeros(distance.shape, np.bool_)
    for axis in (0, 1):
        values, marks = np.moveaxis(inverse, axis, 0), np.moveaxis(is_edge, axis, 0)
        before, here, after = values[:-2], values[1:-1], values[2:]
        bend = np.abs(before - 2.0 * here + after)
        is_known = (before > 0) & (here > 0) & (after > 0)
        marks[1:-1] |= is_known & (bend > EDGE * here)
    for axis in (0, 1):
        marks = np.moveaxis(is_edge, axis, 0)
        wide = marks.copy()
        wide[1:] |= marks[:-1]
        wide[:-1] |= marks[1:]
        marks[:] = wide
    return is_edge
