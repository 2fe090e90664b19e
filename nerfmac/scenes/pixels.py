"""Drawing pixels for a training step, in the graph and from an explicit key."""

from __future__ import annotations

import math

import mlx.core as mx

from nerfmac import checks
from nerfmac.cameras import Cameras
from nerfmac.rays import Rays, rays_through


def draw_pixels(
    images: mx.array, cameras: Cameras, key: mx.array, count: int
) -> tuple[Rays, mx.array]:
    """`count` pixels, uniform over images, rows and columns: rays through their centres, colours.

    `images` is uint8 (n, h, w, 3 or 4), one for each of the `cameras`. Colours are float32
    (count, 4) in [0, 1] with straight alpha, 1 where the images have none. The same key draws the
    same pixels. Raises InputError for images that do not match the cameras, or of 2^31
    pixels and more in all: an index is an int32.
    """
    checks.dtype("images", images, mx.uint8)
    checks.shape("images", images, (len(cameras), cameras.height, cameras.width, None))
    checks.number("channels of images", images.shape[3], low=3, high=4)
    checks.number("pixels of all images", math.prod(images.shape[:3]), high=2**31 - 1)
    # A number an axis: a flat index passes 2^24, where a float32 skips pixels.
    sizes = mx.array(images.shape[:3])[:, None]
    share = mx.random.uniform(shape=(3, count), key=key)
    view, row, column = mx.minimum((share * sizes).astype(mx.int32), sizes - 1)
    pixel = mx.stack([column, row], axis=-1).astype(mx.float32) + 0.5
    # One flat index gathers twice as fast as three.
    flat = (view * cameras.height + row) * cameras.width + column
    colour = images.reshape(-1, images.shape[3])[flat].astype(mx.float32) / 255.0
    if images.shape[3] == 3:
        colour = mx.concatenate([colour, mx.ones((count, 1))], axis=-1)
    return rays_through(cameras, view, pixel), colour
