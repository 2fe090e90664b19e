"""Pairs of training rays through neighboring pixels, for losses that compare them.

Ray i of the first half has ray i + `pairs` as its neighbor, in the same image. Both count for the
color loss like any others.
"""

from __future__ import annotations

import mlx.core as mx

REACH = 1 / 32
"""Largest distance of a neighbor, as a fraction of the image's height and of its width."""

_END = 1.0 - 2.0**-20  # the last row and column begin before it in images of up to 2^20 pixels


def next_to_each_other(pixel_draws: mx.array) -> tuple[mx.array, int]:
    """Move the second half of a draw of pixels next to the first half.

    Args:
        pixel_draws: (3, rays) fractions in [0, 1) that `draw_pixels` takes: of the image, the row,
            and the column.

    Returns:
        The fractions (3, rays), and the number of pairs. The numbers that are replaced choose the
        distances, uniformly up to `REACH` in both directions.
    """
    pairs = pixel_draws.shape[1] // 2
    first, second, rest = mx.split(pixel_draws, (pairs, 2 * pairs), axis=1)
    place = first[1:] + REACH * (2.0 * second[1:] - 1.0)
    beside = mx.concatenate([first[:1], mx.clip(place, 0.0, _END)], axis=0)
    return mx.concatenate([first, beside, rest], axis=1), pairs
