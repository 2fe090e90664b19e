"""Pure functions of rendered and target pixels."""

from __future__ import annotations

import mlx.core as mx


def huber(predicted: mx.array, target: mx.array, delta: float) -> mx.array:
    """Huber's loss (1964), element by element: square up to `delta`, then linear.

    Both are arrays of one shape; the result is e^2 / (2 delta) for |e| <= delta, else
    |e| - delta / 2, so that its slope is one where it is linear.
    """
    error = mx.abs(predicted - target)
    return mx.where(error <= delta, error * error / (2.0 * delta), error - 0.5 * delta)
