"""Drawing pixels for a training step: rays through them and their colours."""

from __future__ import annotations

import math

import mlx.core as mx

from nerfmac import checks
from nerfmac.backend import Kernel, runs_kernel
from nerfmac.geometry.cameras import Cameras
from nerfmac.geometry.lenses import NEWTON_STEPS
from nerfmac.geometry.rays import Rays, rays_through

_DRAW = Kernel(
    "draw_pixels",
    "draw_pixels",
    inputs=("shares", "sizes", "images", "intrinsics", "distortion", "poses"),
    outputs=("origins", "directions", "colours"),
    rows="shares_shape[1]",
)


def draw_pixels(images: mx.array, cameras: Cameras, shares: mx.array) -> tuple[Rays, mx.array]:
    """The pixels that `shares` choose: rays through their centres, and their colours.

    Args:
        images: (n, h, w, 3 or 4) uint8, one for each of the `cameras`.
        cameras: n of them.
        shares: (3, pixels) float32 in [0, 1): how far down the images, their rows and columns.
            Drawn evenly, they choose each pixel as often.

    Returns:
        The rays, and (pixels, 4) float32 in [0, 1] with straight alpha, 1 where images have none.

    Raises:
        InputError: images that do not match the cameras, or of 2^31 pixels and more in all: an
            index is an int32; a wrong shape or type.
    """
    checks.dtype("images", images, mx.uint8)
    checks.shape("images", images, (len(cameras), cameras.height, cameras.width, None))
    checks.number("channels of images", images.shape[3], low=3, high=4)
    checks.number("pixels of all images", math.prod(images.shape[:3]), high=2**31 - 1)
    # A number an axis: a flat index passes 2^24, where a float32 skips pixels.
    checks.shape("shares", shares, (3, None))
    checks.dtype("shares", shares, mx.float32)
    count = shares.shape[1]
    if not runs_kernel("draw_pixels"):
        return draw_pixels_reference(images, cameras, shares)
    origin, direction, colour = _DRAW(
        shares,
        mx.array(images.shape[:3], mx.int32),
        images,
        cameras.intrinsics,
        cameras.distortion,
        cameras.poses,
        grid=(count, 1, 1),
        template=[
            ("CHANNELS", images.shape[3]),
            ("NEWTON_STEPS", NEWTON_STEPS if cameras.is_distorted else 0),
        ],
        output_shapes=[(count, 3), (count, 3), (count, 4)],
        output_dtypes=[mx.float32] * 3,
    )
    return Rays(origin, direction), colour


def draw_pixels_reference(
    images: mx.array, cameras: Cameras, shares: mx.array
) -> tuple[Rays, mx.array]:
    """The same in plain MLX."""
    sizes = mx.array(images.shape[:3])[:, None]
    view, row, column = mx.minimum((shares * sizes).astype(mx.int32), sizes - 1)
    pixel = mx.stack([column, row], axis=-1).astype(mx.float32) + 0.5
    # One flat index gathers twice as fast as three.
    flat = (view * cameras.height + row) * cameras.width + column
    colour = images.reshape(-1, images.shape[3])[flat].astype(mx.float32) / 255.0
    if images.shape[3] == 3:
        colour = mx.concatenate([colour, mx.ones((shares.shape[1], 1))], axis=-1)
    return rays_through(cameras, view, pixel), colour
