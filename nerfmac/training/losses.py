"""Losses: pure functions of rendered and true colours."""

from __future__ import annotations

from collections.abc import Callable

import mlx.core as mx

from nerfmac.ops.composite import Composited

Loss = Callable[[Composited, mx.array], mx.array]
"""Gives each ray's loss (rays,), or several of each ray (rays, n). Its arguments are what the rays
see and the true colours (rays, 3), both over the same backgrounds. A step descends the mean."""


def huber(predicted: mx.array, target: mx.array, delta: float) -> mx.array:
    """Huber's loss (1964), element by element: square up to `delta`, then linear.

    Both arrays have the same shape. For an error e the result is e^2 / (2 delta) if |e| <= delta,
    else |e| - delta / 2: where it is linear the slope is one.
    """
    error = predicted - target
    # Not differentiated: its part of the slope is zero. That leaves a step few operations.
    clipped = mx.stop_gradient(mx.clip(error, -delta, delta))
    return clipped * (error - 0.5 * clipped) / delta


def huber_loss(delta: float) -> Loss:
    """`huber` of each of a ray's three colours."""

    def loss(seen: Composited, target: mx.array) -> mx.array:
        return huber(seen.colour, target, delta)

    return loss
