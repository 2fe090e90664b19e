"""Lookup of the depth that a sensor has measured along the rays of drawn pixels."""

import mlx.core as mx

from nerfmac.backend import Kernel, Signature
from nerfmac.geometry import SURE, Cameras, DepthMaps
from nerfmac.ops.operation import operation

_TAKES = Signature(
    index=(mx.int32, "rays"),
    view_of=(mx.int32, "rays"),
    image_places=(mx.int32, "views", 5),
    places=(mx.int32, "views", 3),
    distances=(mx.float32, "pixels"),
    confidences=(mx.uint8, "pixels"),
)
_GIVES = Signature(known=(mx.float32, "rays", 2))
_LOOK_UP = Kernel("sensor_depth", "sensor_depth", _TAKES, _GIVES)


def sensor_depth(maps: DepthMaps, cameras: Cameras, index: mx.array, view: mx.array) -> mx.array:
    """Return the measured distance along each ray, and its confidence.

    The inverse distance is interpolated linearly between the four nearest pixels of the depth map,
    because the inverse depth of a plane is linear in the image. The result is not differentiable.

    Args:
        maps: Depth maps of the views.
        cameras: Cameras of the views.
        index: (rays,) int32, index of the pixel of each ray, as in `draw_pixels`.
        view: (rays,) int32, index of the view of each ray.

    Returns:
        float32 array (rays, 2). Each row contains a distance in scene units and a confidence in
        [0, 1], the lowest confidence of the four pixels. If one of them is unknown, the row is
        (1, 0).

    Raises:
        InputError: If a shape or type is wrong.

    Examples:
        >>> import numpy as np
        >>> from nerfmac.geometry.cameras import Cameras
        >>> from nerfmac.geometry.depth_maps import DepthMaps
        >>> from nerfmac.ops.sensor_depth import sensor_depth
        >>> maps = DepthMaps.stack([(np.array([[2.0, 4.0]]), np.ones((1, 2)))])
        >>> lens = nerfmac.Lens(3, 1, 1.0, 1.0, 1.5, 0.5)
        >>> cameras = Cameras.stack([nerfmac.Camera(lens, np.eye(4)[:3])])
        >>> center = mx.array([1])
        >>> sensor_depth(maps, cameras, center, mx.array([0]))  # 1 / the mean of 1/2 and 1/4
        array([[2.66667, 1]], dtype=float32)
    """
    arrays = index, view, cameras.places, maps.places, maps.distances, maps.confidences
    _TAKES.check(*arrays)
    return mx.stop_gradient(_sensor_depth(*arrays))


def _sensor_depth_reference(
    index: mx.array,
    view: mx.array,
    image_places: mx.array,
    places: mx.array,
    distances: mx.array,
    confidences: mx.array,
) -> mx.array:
    first, height, width = places[view].T
    begin, image_height, image_width, _, _ = image_places[view].T
    image_row, image_column = mx.divmod(index - begin, image_width)
    row = (image_row + 0.5) / image_height * height - 0.5
    row = mx.clip(row, 0.0, (height - 1).astype(mx.float32))
    column = (image_column + 0.5) / image_width * width - 0.5
    column = mx.clip(column, 0.0, (width - 1).astype(mx.float32))
    top, left = row.astype(mx.int32), column.astype(mx.int32)
    inverse, lowest = mx.zeros(view.shape), mx.full(view.shape, SURE, mx.int32)
    for down in (0, 1):
        for right in (0, 1):
            share = mx.abs(1 - down - (row - top)) * mx.abs(1 - right - (column - left))
            place = mx.minimum(top + down, height - 1) * width + mx.minimum(left + right, width - 1)
            confidence = confidences[first + place].astype(mx.int32)
            lowest = mx.minimum(lowest, confidence)
            distance = mx.where(confidence > 0, distances[first + place], 1.0)
            inverse = inverse + mx.where(confidence > 0, share / distance, 0.0)
    is_known = lowest > 0
    distance = mx.where(is_known, 1.0 / mx.where(is_known, inverse, 1.0), 1.0)
    return mx.stack([distance, lowest.astype(mx.float32) / SURE], axis=1)


@operation("sensor_depth", _sensor_depth_reference)
def _sensor_depth(*arrays: mx.array) -> list[mx.array]:
    return _LOOK_UP(*arrays, grid=(arrays[0].shape[0], 1, 1))
