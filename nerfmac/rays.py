"""Pixels to rays in scene space, by the camera convention of `nerfmac.cameras`."""

from __future__ import annotations

from typing import NamedTuple

import mlx.core as mx

from nerfmac import checks
from nerfmac.cameras import Camera, Cameras, undistort


class Rays(NamedTuple):
    """Half lines: `origin` (r, 3) in scene units, `direction` (r, 3) of length one; float32."""

    origin: mx.array
    direction: mx.array


def rays_through(cameras: Cameras, view: mx.array, pixel: mx.array) -> Rays:
    """The ray of each pixel position, from its camera's centre outwards.

    `view` int32 (r,) numbers the cameras, `pixel` float32 (r, 2) holds x right and y down in
    pixels. It may be compiled, with the arrays of `cameras` captured or handed in. Raises
    InputError for a wrong shape or dtype; an index outside the cameras is not looked for.
    """
    checks.dtype("view", view, mx.int32)
    checks.dtype("pixel", pixel, mx.float32)
    checks.shape("view", view, (None,))
    checks.shape("pixel", pixel, (view.shape[0], 2))
    intrinsics, poses = cameras.intrinsics[view], cameras.poses[view]
    point = (pixel - intrinsics[:, 2:]) / intrinsics[:, :2]
    if cameras.is_distorted:
        point = undistort(point, cameras.distortion[view])
    # Sums of columns and no matmul, which a GPU may do in TF32 with ten bits of mantissa.
    direction = poses[:, :, 0] * point[:, :1] - poses[:, :, 1] * point[:, 1:] - poses[:, :, 2]
    length = mx.sqrt(mx.sum(mx.square(direction), axis=-1, keepdims=True))
    return Rays(poses[:, :, 3], direction / length)


def camera_rays(camera: Camera) -> Rays:
    """The rays through all pixel centres of one view, row by row from the top left."""
    width, height = camera.lens.width, camera.lens.height
    index = mx.arange(width * height)
    pixel = mx.stack([index % width, index // width], axis=-1).astype(mx.float32) + 0.5
    view = mx.zeros((width * height,), mx.int32)
    return rays_through(Cameras.stack([camera]), view, pixel)
