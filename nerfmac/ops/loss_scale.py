"""Update of the dynamic loss scale after a training step.

Gradients are computed for the loss times a scale, to prevent underflow in half precision. If a
gradient is not finite, the step is skipped, and the scale is halved. After
`LOSS_SCALE_GROWTH_INTERVAL` consecutive steps that are not skipped, the scale is doubled
(Micikevicius et al. 2018, section 3.2).
"""

from __future__ import annotations

from typing import NamedTuple

import mlx.core as mx

from nerfmac.backend import Kernel, Signature
from nerfmac.common import LOSS_SCALE_GROWTH_INTERVAL, LOSS_SCALE_LARGEST, LOSS_SCALE_SMALLEST
from nerfmac.ops.operation import operation

_STATE = {
    "scale": (mx.float32, 1),
    "good_steps": (mx.int32, 1),
    "skipped": (mx.int32, 1),
    "skipped_in_a_row": (mx.int32, 1),
}
_TAKES = Signature(total=(mx.float32, 1), **_STATE)
_GIVES = Signature(
    **{f"new_{name}": axes for name, axes in _STATE.items()}, unscale=(mx.float32, 1)
)
_AFTER = Kernel("loss_scale", "loss_scale", _TAKES, _GIVES)


class LossScale(NamedTuple):
    """Loss scale, and numbers of successful and skipped steps. Every field is a scalar array."""

    scale: mx.array  # float32, from LOSS_SCALE_SMALLEST to LOSS_SCALE_LARGEST
    good_steps: mx.array  # int32, steps since the scale last changed or a step was skipped
    skipped: mx.array  # int32, number of skipped steps of the whole run
    skipped_in_a_row: mx.array  # int32, number of consecutive skipped steps up to the last step

    @classmethod
    def init(cls, scale: float) -> LossScale:
        """Return the loss scale before the first step."""
        return cls(mx.array(scale), *(mx.array(0, mx.int32) for _ in range(3)))


def next_loss_scale(state: LossScale, total: mx.array) -> tuple[LossScale, mx.array]:
    """Return the loss scale after a step, and the factor that removes the scale from the gradients.

    Args:
        state: Loss scale before the step.
        total: Sum of all gradients of the step, a float32 scalar. The sum is not finite if any
            gradient is not finite.

    Returns:
        Loss scale after the step, and a float32 array (1,): the reciprocal of the scale before the
        step, or 0 if the step is skipped.

    Raises:
        InputError: If a dtype is wrong.

    Examples:
        >>> from nerfmac.ops.loss_scale import LossScale, next_loss_scale
        >>> state, unscale = next_loss_scale(LossScale.init(1024.0), mx.array(float("inf")))
        >>> state.scale.item(), state.skipped.item(), unscale.item()
        (512.0, 1, 0.0)
    """
    arrays = [values.reshape(1) for values in (total, *state)]
    _TAKES.check(*arrays)
    *after, unscale = _after(*arrays)
    return LossScale(*(values.reshape(()) for values in after)), unscale


def _after_reference(total, scale, good_steps, skipped, skipped_in_a_row):  # type: ignore[no-untyped-def]
    is_good = mx.isfinite(total)
    in_a_row = mx.where(is_good, good_steps + 1, 0)
    grows = in_a_row >= LOSS_SCALE_GROWTH_INTERVAL
    grown = mx.where(grows, mx.minimum(2.0 * scale, LOSS_SCALE_LARGEST), scale)
    return (
        mx.where(is_good, grown, mx.maximum(0.5 * scale, LOSS_SCALE_SMALLEST)),
        mx.where(grows, 0, in_a_row),
        skipped + mx.where(is_good, 0, 1),
        mx.where(is_good, 0, skipped_in_a_row + 1),
        mx.where(is_good, 1.0 / scale, 0.0),
    )


@operation("loss_scale", _after_reference)
def _after(*arrays: mx.array) -> list[mx.array]:
    return _AFTER(*arrays, grid=(1, 1, 1))
