"""Exponential moving average of parameters."""

from __future__ import annotations

import mlx.core as mx

from nerfmac.backend import Kernel, Signature
from nerfmac.ops.operation import operation

_TAKES = Signature(
    average=(mx.float32, "values"),
    newest=(mx.float32, "values"),
    weight=(mx.float32, 1),
    skipped=(mx.int32, 1),
)
_GIVES = Signature(new_average=_TAKES["average"])
_KERNEL = Kernel("moving_average", "moving_average", _TAKES, _GIVES)


def moving_average(
    average: mx.array, newest: mx.array, weight: mx.array, skipped: mx.array
) -> mx.array:
    """Return a moving average after a step: average + weight * (newest - average).

    Args:
        average: float32 of any shape.
        newest: float32 with the shape of `average`.
        weight: float32 array with one element, weight of the newest values.
        skipped: int32 array with one element. If it is not 0, the average does not change.

    Returns:
        New average, with the shape of `average`.

    Raises:
        InputError: If a shape or type is wrong.

    Examples:
        >>> from nerfmac.ops.moving_average import moving_average
        >>> weight, skipped = mx.array(0.25), mx.array(0)
        >>> moving_average(mx.array([0.0, 8.0]), mx.array([4.0, 4.0]), weight, skipped)
        array([1, 7], dtype=float32)
    """
    arrays = [values.reshape(-1) for values in (average, newest, weight, skipped)]
    _TAKES.check(*arrays)
    return _moving_average(*arrays).reshape(average.shape)


def _reference(
    average: mx.array, newest: mx.array, weight: mx.array, skipped: mx.array
) -> mx.array:
    return average + mx.where(skipped == 0, weight, 0.0) * (newest - average)


@operation("moving_average", _reference)
def _moving_average(
    average: mx.array, newest: mx.array, weight: mx.array, skipped: mx.array
) -> list[mx.array]:
    return _KERNEL(average, newest, weight, skipped, grid=(average.size, 1, 1))
