"""Conversion of pixels to rays in scene coordinates.

Camera axes are as in `nerfmac.geometry.cameras`.
"""

from math import pi
from typing import NamedTuple

import mlx.core as mx

from nerfmac.common import checks, refuse_forked
from nerfmac.geometry.cameras import Camera, Cameras
from nerfmac.geometry.lenses import fisheye_directions, undistort


class Rays(NamedTuple):
    """Rays, described by their origins (r, 3) in scene coordinates and unit directions (r, 3).

    Both arrays are float32.
    """

    origin: mx.array
    direction: mx.array


def rays_through(cameras: Cameras, view: mx.array, pixel: mx.array) -> Rays:
    """Return the rays from camera centers through pixel positions.

    `view`, int32 (r,), contains the camera index of each ray, and `pixel`, float32 (r, 2), contains
    x (right) and y (down) in pixels. `mx.compile` can compile the function, with the arrays in
    `cameras` either captured or passed as arguments. The range of the indices is not checked.
    """
    checks.dtype("view", view, mx.int32)
    checks.dtype("pixel", pixel, mx.float32)
    checks.shape("view", view, (None,))
    checks.shape("pixel", pixel, (view.shape[0], 2))
    distortion = cameras.distortion[view] if cameras.is_distorted else None
    lens = cameras.intrinsics[view], distortion, cameras.is_fisheye
    return _through(*lens, cameras.poses[view], pixel)


def _through(
    intrinsics: mx.array,
    distortion: mx.array | None,
    is_fisheye: bool,
    poses: mx.array,
    pixel: mx.array,
) -> Rays:
    seen = directions((pixel - intrinsics[:, 2:]) / intrinsics[:, :2], distortion, is_fisheye)
    x, y, z = seen[:, :1], seen[:, 1:2], seen[:, 2:]
    # Directions are rotated with sums of columns, because a GPU may compute a matmul in TF32 with
    # only ten mantissa bits.
    direction = poses[:, :, 0] * x - poses[:, :, 1] * y - poses[:, :, 2] * z
    length = mx.sqrt(mx.sum(mx.square(direction), axis=-1, keepdims=True))
    origin = mx.broadcast_to(poses[:, :, 3], direction.shape)
    return Rays(origin, direction / length)


def directions(point: mx.array, distortion: mx.array | None, is_fisheye: bool) -> mx.array:
    """Return the directions (r, 3) that lenses map to points, without normalization.

    Directions have x right, y down, and z forward. `point` (r, 2) is relative to the principal
    point, in focal lengths. `distortion` is (r, 7) or (1, 7) as in `Cameras`, or None for pinhole
    cameras. `is_fisheye` specifies whether any lens is a fisheye lens.
    """
    refuse_forked()
    ahead = mx.ones((point.shape[0], 1))
    if distortion is None:
        return mx.concatenate([point, ahead], axis=-1)
    straight = mx.concatenate([undistort(point, distortion[:, :6]), ahead], axis=-1)
    if not is_fisheye:
        return straight
    return mx.where(distortion[:, 6:] > 0, fisheye_directions(point, distortion[:, :4]), straight)


def camera_rays(camera: Camera) -> Rays:
    """Return the rays through the centers of all pixels of a camera, in row-major order."""
    cameras = Cameras.stack([camera])
    distortion = cameras.distortion if cameras.is_distorted else None
    width, height = camera.lens.width, camera.lens.height
    index = mx.arange(width * height)
    lens = cameras.intrinsics, distortion, cameras.is_fisheye
    return Rays(*_pixel_rays(index, mx.array(width), *lens, cameras.poses))


def panorama_rays(camera: Camera, eye: float = 0.0) -> Rays:
    """Return the rays of an equirectangular panorama, in row-major order.

    The columns cover 360 degrees. From left to right, they show the directions behind, to the left
    of, in front of, to the right of, and again behind the camera. The rows cover 180 degrees, from
    top to bottom. Of the camera intrinsics, only the image size and the principal point are used.
    If the principal point is not at the image center, the panorama is shifted by the difference.

    For stereo panoramas, `eye` is the offset of an eye from the camera position, in scene units:
    positive for the right eye and negative for the left eye. The rays are tangent to a circle
    around the camera, because a viewer's eyes move along this circle when the head turns (Peleg,
    Ben-Ezra, Pritch: Omnistereo: panoramic stereo imaging, 2001).
    """
    lens, pose = camera.lens, mx.array(camera.pose)
    index = mx.arange(lens.width * lens.height)
    column = (index % lens.width).astype(mx.float32) + (0.5 + lens.width / 2 - lens.cx)
    row = (index // lens.width).astype(mx.float32) + (0.5 + lens.height / 2 - lens.cy)
    right, down = (column / lens.width - 0.5) * 2.0 * pi, (row / lens.height - 0.5) * pi
    level = mx.cos(down)
    parts = level * mx.sin(right), -mx.sin(down), -level * mx.cos(right)
    axes = zip(parts, pose.T[:3], strict=True)
    direction = sum((part[:, None] * axis for part, axis in axes), start=mx.zeros(3))
    origin = mx.broadcast_to(pose[:, 3], direction.shape)
    if eye:
        across = mx.cos(right)[:, None] * pose[:, 0] + mx.sin(right)[:, None] * pose[:, 2]
        origin = origin + eye * across
    return Rays(origin, direction)


@mx.compile
def _pixel_rays(
    index: mx.array,
    width: mx.array,  # an array, because a number would require a new kernel for each width
    intrinsics: mx.array,
    distortion: mx.array | None,
    is_fisheye: bool,
    poses: mx.array,
) -> Rays:
    pixel = mx.stack([index % width, index // width], axis=-1).astype(mx.float32) + 0.5
    return _through(intrinsics, distortion, is_fisheye, poses, pixel)
