"""Dynamic loss scaling to prevent underflow of half-precision gradients.

Gradients are computed for the loss times a scale. If a gradient is not finite, the step is skipped,
and the scale is halved. After `GROWTH_INTERVAL` consecutive steps that are not skipped, the scale
is doubled (Micikevicius et al. 2018, section 3.2). The compiled training step includes these
computations, so the host does not wait for them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import mlx.core as mx

GROWTH_INTERVAL = 2000
"""Number of consecutive steps without a skipped step, after which the scale is doubled."""

LARGEST, SMALLEST = 2.0**16, 2.0**-14
"""Maximum and minimum loss scale."""


class LossScale(NamedTuple):
    """Loss scale, and numbers of successful and skipped steps. Every field is a scalar array."""

    scale: mx.array  # float32, from SMALLEST to LARGEST
    good_steps: mx.array  # int32, steps since the scale last changed or a step was skipped
    skipped: mx.array  # int32, number of skipped steps of the whole run
    skipped_in_a_row: mx.array  # int32, number of consecutive skipped steps up to the last step

    @classmethod
    def init(cls, scale: float) -> LossScale:
        """Return the loss scale before the first step."""
        return cls(mx.array(scale), *(mx.array(0, mx.int32) for _ in range(3)))

    def after(self, is_good: mx.array) -> LossScale:
        """Return the loss scale after a step.

        `is_good` is a bool scalar: True if all gradients of the step are finite.
        """
        good_steps = mx.where(is_good, self.good_steps + 1, 0)
        grows = good_steps >= GROWTH_INTERVAL
        grown = mx.where(grows, mx.minimum(2.0 * self.scale, LARGEST), self.scale)
        return LossScale(
            mx.where(is_good, grown, mx.maximum(0.5 * self.scale, SMALLEST)),
            mx.where(grows, 0, good_steps),
            self.skipped + mx.where(is_good, 0, 1),
            mx.where(is_good, 0, self.skipped_in_a_row + 1),
        )


def all_finite(gradients: Iterable[mx.array]) -> mx.array:
    """Return whether the sum of all gradients is finite, as a bool scalar.

    If any value of a gradient is not finite, the result is False.
    """
    # Testing the sum requires fewer launches than testing each value.
    total = mx.array(0.0)
    for gradient in gradients:
        total = total + gradient.sum()
    return mx.isfinite(total)


def guard_fault() -> str | None:
    """Test `all_finite` on the current device.

    The result is a description of the failure, or None if the test succeeds. With fast math, a
    compiler may assume that all numbers are finite and replace the check with True, so that steps
    with infinite gradients would not be skipped. MLX compiles without fast math, so the test is
    expected to succeed.
    """
    compiled = mx.compile(lambda *gradients: all_finite(gradients))
    try:
        for value in (math.nan, math.inf, -math.inf, 1.0):
            if bool(compiled(mx.ones(3), mx.array([0.5, value]))) != math.isfinite(value):
                verdict = "not finite" if math.isfinite(value) else "finite"
                return f"a gradient of {value} counts as {verdict}"
    except RuntimeError as error:
        return str(error)
    return None
