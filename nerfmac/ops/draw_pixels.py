"""Random pixels for a training step, and the rays and colors of given pixels."""

from collections.abc import Iterator
from typing import NamedTuple

import mlx.core as mx

from nerfmac.backend import Kernel, Signature
from nerfmac.common import FRACTION_UNITS, checks
from nerfmac.geometry import NEWTON_STEPS, Cameras, Rays, pixel_radius, rays_through
from nerfmac.ops.operation import operation
from nerfmac.ops.uniform import uniform

BATCH = 2**12
"""Number of pixels in a batch of `pixel_batches`."""

_TAKES = Signature(pixels=(mx.uint8, "pixels", "channels"), index=(mx.int32, "rays"))
_FRACTIONS = Signature(fractions=(mx.float32, 3, "rays"))
_VIEWS = Signature(views=(mx.int32, 1), places=(mx.int32, "views", 5))
_CAMERAS = Signature(
    intrinsics=(mx.float32, "views", 4),
    distortion=(mx.float32, "views", 7),
    poses=(mx.float32, "views", 3, 4),
)
_GIVES = Signature(
    origins=(mx.float32, "rays", 3),
    directions=(mx.float32, "rays", 3),
    colors=(mx.float32, "rays", 3),
    alphas=(mx.float32, "rays", 1),
    view_of=(mx.int32, "rays"),
)
_DRAW = Kernel(
    "draw_pixels",
    "draw_pixels",
    Signature(index=_TAKES["index"], **_VIEWS, pixels=_TAKES["pixels"], **_CAMERAS),
    _GIVES,
)
_CHOOSE = Kernel(
    "draw_pixels",
    "choose_pixels",
    Signature(**_FRACTIONS, **_VIEWS),
    Signature(index=_TAKES["index"]),
    rows="fractions_shape[1]",
)


class Drawn(NamedTuple):
    """Pixels with their rays, colors, and views."""

    rays: Rays  # rays through the centers of the pixels
    color: mx.array  # (rays, 3) float32 in [0, 1], not premultiplied by alpha
    alpha: mx.array  # (rays, 1) float32 in [0, 1], 1 for pixels without alpha
    view: mx.array  # (rays,) int32, index of the view of each pixel


def choose_pixels(cameras: Cameras, fractions: mx.array) -> mx.array:
    """Select random pixels of all views.

    Args:
        cameras: One camera for each view.
        fractions: (3, rays) float32 in [0, 1). Its three rows select the view, the image row, and
            the image column. If the fractions are uniformly distributed, all pixels are equally
            likely.

    Returns:
        Index of each pixel among the pixels of all views in row-major order, int32 (rays,).

    Raises:
        InputError: If a shape or type is wrong.
    """
    # The view, the row, and the column have separate fractions, because a single float32 can
    # represent only 2^24 different fractions, and many scenes have more pixels.
    _FRACTIONS.check(fractions)
    return _choose(cameras, fractions)


def draw_pixels(pixels: mx.array, cameras: Cameras, index: mx.array) -> Drawn:
    """Return the colors, the views, and the rays of pixels.

    Args:
        pixels: (pixels, 3 or 4) uint8, concatenated pixels of all views in row-major order.
        cameras: One camera for each view.
        index: (rays,) int32, index of each pixel in `pixels`, for example from `choose_pixels`.

    Returns:
        Rays through the centers of the pixels, and the colors and views of the pixels.

    Raises:
        InputError: If a shape or type is wrong, if the number of pixels differs from the total
            image size of the cameras, or if there are 2^31 pixels or more, which an int32 cannot
            represent.
    """
    checks.number("pixels of all views", cameras.pixels, high=2**31 - 1)
    _TAKES.check(pixels, index, pixels=cameras.pixels)
    checks.number("channels of pixels", pixels.shape[1], low=3, high=4)
    drawn = _draw(pixels, cameras, index)
    radius = pixel_radius(cameras, drawn.view, drawn.rays.direction)
    return drawn._replace(rays=drawn.rays._replace(view=drawn.view, radius=radius))


def random_rays(pixels: mx.array, cameras: Cameras, count: int, key: mx.array) -> Rays:
    """Return rays through `count` random pixels, selected with the random `key`."""
    return draw_pixels(pixels, cameras, random_pixels(cameras, count, key)).rays


def random_pixels(cameras: Cameras, count: int, key: mx.array) -> mx.array:
    """Return the indices of `count` random pixels, selected with the random `key`, int32
    (count,)."""
    return choose_pixels(cameras, uniform(3 * count, key).reshape(3, count))


def pixel_batches(cameras: Cameras, most: int, key: mx.array) -> Iterator[mx.array]:
    """Yield batches of BATCH indices of random pixels of all views, as from `random_pixels`.

    The batches together have at least `most` indices or, if the views have fewer pixels, at least
    as many indices as pixels.
    """
    count = -(-min(cameras.pixels, most) // BATCH)
    return (random_pixels(cameras, BATCH, each) for each in mx.random.split(key, count))


def choose_pixels_reference(cameras: Cameras, fractions: mx.array) -> mx.array:
    """Reference implementation of `choose_pixels` in plain MLX, with the same arguments and
    result."""
    share = fractions[0] * len(cameras)
    view = mx.minimum(share.astype(mx.int32), len(cameras) - 1)
    _, _, _, kept, other = cameras.places[view].T
    view = mx.where(((share - view) * FRACTION_UNITS).astype(mx.int32) < kept, view, other)
    first, height, width, _, _ = cameras.places[view].T
    row = mx.minimum((fractions[1] * height).astype(mx.int32), height - 1)
    column = mx.minimum((fractions[2] * width).astype(mx.int32), width - 1)
    return first + row * width + column


@operation("draw_pixels", choose_pixels_reference)
def _choose(cameras: Cameras, fractions: mx.array) -> mx.array:
    arrays = fractions, mx.array([len(cameras)], mx.int32), cameras.places
    (index,) = _CHOOSE(*arrays, grid=(fractions.shape[1], 1, 1))
    return index


def draw_pixels_reference(pixels: mx.array, cameras: Cameras, index: mx.array) -> Drawn:
    """Reference implementation of `draw_pixels` in plain MLX, with the same arguments and
    results."""
    view = (index[:, None] >= cameras.places[1:, 0]).sum(axis=1).astype(mx.int32)
    first, _, width, _, _ = cameras.places[view].T
    row, column = mx.divmod(index - first, width)
    place = mx.stack([column, row], axis=-1).astype(mx.float32) + 0.5
    color = pixels[index].astype(mx.float32) / 255.0
    alpha = color[:, 3:] if pixels.shape[1] == 4 else mx.ones((index.size, 1))
    return Drawn(rays_through(cameras, view, place), color[:, :3], alpha, view)


@operation("draw_pixels", draw_pixels_reference)
def _draw(pixels: mx.array, cameras: Cameras, index: mx.array) -> Drawn:
    newton_steps = NEWTON_STEPS if cameras.is_distorted else 0
    origin, direction, color, alpha, view = _DRAW(
        *(index, mx.array([len(cameras)], mx.int32), cameras.places, pixels),
        *(cameras.intrinsics, cameras.distortion, cameras.poses),
        grid=(index.shape[0], 1, 1),
        template=[("CHANNELS", pixels.shape[1]), ("NEWTON_STEPS", newton_steps)],
    )
    return Drawn(Rays(origin, direction), color, alpha, view)
