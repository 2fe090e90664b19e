"""Drawing pixels for a training step: rays through them and their colours."""

from __future__ import annotations

import math
from collections.abc import Iterator

import mlx.core as mx

from nerfmac import checks
from nerfmac.backend import Kernel, runs_kernel
from nerfmac.geometry.cameras import Cameras
from nerfmac.geometry.lenses import NEWTON_STEPS
from nerfmac.geometry.rays import Rays, rays_through
from nerfmac.ops.signature import Signature

BATCH = 2**12
"""Rays of a batch."""

_TAKES = Signature(
    images=(mx.uint8, "images", "height", "width", "channels"),
    fractions=(mx.float32, 3, "pixels"),
)
_GIVES = Signature(
    origins=(mx.float32, "pixels", 3),
    directions=(mx.float32, "pixels", 3),
    colours=(mx.float32, "pixels", 4),
)
_DRAW = Kernel(
    "draw_pixels",
    "draw_pixels",
    inputs=("fractions", "sizes", "images", "intrinsics", "distortion", "poses"),
    outputs=_GIVES.names,
    rows="fractions_shape[1]",
)


def draw_pixels(images: mx.array, cameras: Cameras, fractions: mx.array) -> tuple[Rays, mx.array]:
    """The pixels that `fractions` choose: rays through their centres, and their colours.

    Args:
        images: (n, h, w, 3 or 4) uint8, one for each of the `cameras`.
        cameras: n of them.
        fractions: (3, pixels) float32 in [0, 1): where each pixel is along the list of images,
            down the image and along the row. Uniform fractions choose all pixels equally often.

    Returns:
        The rays, and colours (pixels, 4) float32 in [0, 1], with straight alpha; 1 without alpha.

    Raises:
        InputError: a wrong shape or type, images that do not match the cameras, or 2^31 pixels or
            more in all, which an int32 cannot count.
    """
    known = {"images": len(cameras), "height": cameras.height, "width": cameras.width}
    # One fraction for each axis: one float32 for all pixels would skip some beyond 2^24.
    count = _TAKES.check(images, fractions, **known)["pixels"]
    checks.number("channels of images", images.shape[3], low=3, high=4)
    checks.number("pixels of all images", math.prod(images.shape[:3]), high=2**31 - 1)
    if not runs_kernel("draw_pixels"):
        return draw_pixels_reference(images, cameras, fractions)
    origin, direction, colour = _DRAW(
        fractions,
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
        **_GIVES.outputs(pixels=count),
    )
    return Rays(origin, direction), colour


def random_rays(images: mx.array, cameras: Cameras, count: int, key: mx.array) -> Rays:
    """Rays through `count` pixels, drawn by a random `key`; the rest is as in `draw_pixels`."""
    return draw_pixels(images, cameras, mx.random.uniform(shape=(3, count), key=key))[0]


def ray_batches(images: mx.array, cameras: Cameras, most: int, key: mx.array) -> Iterator[Rays]:
    """Random rays in whole batches: as many as there are pixels, but at most about `most`."""
    count = -(-min(math.prod(images.shape[:3]), most) // BATCH)
    return (random_rays(images, cameras, BATCH, each) for each in mx.random.split(key, count))


def draw_pixels_reference(
    images: mx.array, cameras: Cameras, fractions: mx.array
) -> tuple[Rays, mx.array]:
    """The same in plain MLX."""
    sizes = mx.array(images.shape[:3])[:, None]
    view, row, column = mx.minimum((fractions * sizes).astype(mx.int32), sizes - 1)
    pixel = mx.stack([column, row], axis=-1).astype(mx.float32) + 0.5
    # Gathering by one flat index is twice as fast as by three.
    flat = (view * cameras.height + row) * cameras.width + column
    colour = images.reshape(-1, images.shape[3])[flat].astype(mx.float32) / 255.0
    if images.shape[3] == 3:
        colour = mx.concatenate([colour, mx.ones((fractions.shape[1], 1))], axis=-1)
    return rays_through(cameras, view, pixel), colour
