"""Losses: pure functions of what was rendered and what the photographs show."""

from __future__ import annotations

from collections.abc import Callable

import mlx.core as mx

from nerfmac.ops.composite import Composited

Loss = Callable[[Composited, mx.array], mx.array]
"""(rays,) losses of what rays see, its colour over their backgrounds, given the true colours
(rays, 3) over the same; a step descends the mean over its rays."""


def huber(predicted: mx.array, target: mx.array, delta: float) -> mx.array:
    """Huber's loss (1964), element by element: square up to `delta`, then linear.

    Both are arrays of one shape; the result is e^2 / (2 delta) for |e| <= delta, else
    |e| - delta / 2, so that its slope is one where it is linear.
    """
    error = mx.abs(predicted - target)
    return mx.where(error <= delta, error * error / (2.0 * delta), error - 0.5 * delta)


def huber_loss(delta: float) -> Loss:
    """The mean of `huber` over a ray's three colours."""

    def loss(seen: Composited, target: mx.array) -> mx.array:
        return huber(seen.colour, target, delta).mean(axis=1)

    return loss
