"""Adam optimizer step for one array in a single pass (Kingma and Ba 2015, algorithm 1), and the
exponential moving average of parameters.

As in tiny-cuda-nn, an element with a zero gradient, including the L2 term, keeps its value and its
moments. A training step reads only a few entries of a table, and momentum must not change the other
entries.

Memory bandwidth limits the speed, so both moments of an element are packed into one 32-bit word.
The second moment is stored as a float32 exponent and 12 fraction bits. The first moment is at most
`most_first` times the square root of the second moment (Cauchy-Schwarz inequality). The ratio of
the first moment to this upper bound is stored in 12 bits with stochastic rounding. The random bits
for rounding are derived from the gradient. The parameter update uses the moments before they are
rounded.
"""

from functools import cache
from math import sqrt
from typing import NamedTuple

import mlx.core as mx

from nerfmac.backend import Kernel, Signature
from nerfmac.common.constants import FRACTION_UNITS, HASH_PRIME_Y
from nerfmac.ops.operation import operation

_AVERAGE_TAKES = Signature(
    average=(mx.float32, "values"),
    newest=(mx.float32, "values"),
    weight=(mx.float32, 1),
    skipped=(mx.int32, 1),
)
_AVERAGE_GIVES = Signature(new_average=_AVERAGE_TAKES["average"])
_AVERAGE = Kernel("moving_average", "moving_average", _AVERAGE_TAKES, _AVERAGE_GIVES)


def _takes(axes: int) -> Signature:
    names = [f"axis {axis}" for axis in range(axes)]
    return Signature(
        parameters=(mx.float32, *names),
        moments=(mx.uint32, *names),
        gradient=(mx.float32, *names),
        unscale=(mx.float32, 1),
        step=(mx.float32, len(AdamStep._fields)),
    )


@cache
def _kernel(axes: int) -> Kernel:
    """Return the Adam kernel for arrays with `axes` axes.

    Each number of axes has its own kernel, because flattening arrays would add operations to every
    step.
    """
    takes = _takes(axes)
    gives = Signature(new_parameters=takes["parameters"], new_moments=takes["moments"])
    rows = " * ".join(f"gradient_shape[{axis}]" for axis in range(axes)) or "1"
    return Kernel("adam", "adam", takes, gives, rows)


class AdamStep(NamedTuple):
    """Adam settings for one step, including bias correction."""

    beta1: float  # decay of the first moment
    beta2: float  # decay of the second moment
    size: float  # learning rate, corrected for the bias of both moments
    epsilon: float  # epsilon of Adam, corrected for the bias of the second moment
    l2: float  # weight of half the squared parameters in the loss
    most: float  # `most_first(beta1, beta2)`


def most_first(beta1: float, beta2: float) -> float:
    """Return an upper bound of |first moment| / sqrt(second moment), the ratio of the moments in
    Adam.

    The moments are (1 - beta1) sum beta1^k g_k and (1 - beta2) sum beta2^k g_k^2, where g_k is the
    gradient k steps ago.

    Args:
        beta1: Decay of the first moment. Its square must be less than `beta2`.
        beta2: Decay of the second moment.

    Returns:
        Upper bound of the absolute value of the ratio.
    """
    return (1.0 - beta1) / sqrt((1.0 - beta2) * (1.0 - beta1**2 / beta2))


def adam_step(
    parameters: mx.array, moments: mx.array, gradient: mx.array, unscale: mx.array, step: mx.array
) -> tuple[mx.array, mx.array]:
    """Return parameters and moments after one Adam step.

    Elements with a zero gradient, including the L2 term, keep their values and moments.

    Args:
        parameters: float32 of any shape.
        moments: uint32 with the shape of `parameters`, from `pack_moments`. Zeros before the first
            step.
        gradient: float32 with the shape of `parameters`, multiplied by the loss scale.
        unscale: (1,) float32, factor applied to the gradient: the reciprocal of the loss scale. If
            the factor is 0, parameters and moments do not change.
        step: Fields of an `AdamStep` as a float32 array (6,). The values change in every step, and
            a compiled function would treat Python numbers as constants.

    Returns:
        New parameters and new moments, with the same shapes and dtypes as the arguments.

    Raises:
        InputError: If a shape or type is wrong.
    """
    _takes(parameters.ndim).check(parameters, moments, gradient, unscale, step)
    return _adam(parameters, moments, gradient, unscale, step)


def adam_reference(
    parameters: mx.array, moments: mx.array, gradient: mx.array, unscale: mx.array, step: mx.array
) -> tuple[mx.array, mx.array]:
    """Reference implementation of `adam_step` in plain MLX, with the same arguments and results."""
    beta1, beta2, size, epsilon, l2, most = (step[i] for i in range(len(AdamStep._fields)))
    first, second = unpack_moments(moments, most)
    slope = mx.where(unscale != 0, unscale * gradient + l2 * parameters, 0.0)
    first = beta1 * first + (1.0 - beta1) * slope
    second = beta2 * second + (1.0 - beta2) * mx.square(slope)
    moved = parameters - size * first / (mx.sqrt(second) + epsilon)
    is_still = slope == 0
    packed = mx.where(is_still, moments, pack_moments(first, second, most, _dither(gradient)))
    return mx.where(is_still, parameters, moved), packed


@operation("adam", adam_reference)
def _adam(
    parameters: mx.array, moments: mx.array, gradient: mx.array, unscale: mx.array, step: mx.array
) -> list[mx.array]:
    arrays = parameters, moments, gradient, unscale, step
    return _kernel(gradient.ndim)(*arrays, grid=(gradient.size, 1, 1))


def pack_moments(
    first: mx.array, second: mx.array, most: mx.array | float, dither: mx.array | float = 0.5
) -> mx.array:
    """Pack the two float32 moments of each element into one uint32.

    The first moment is stored as a 12-bit ratio to its upper bound, which is `most` times the
    square root of the second moment. `most` is the result of `most_first`. Before the ratio is
    rounded down, `dither` in [0, 1) is added to the ratio in units of its lowest bit.
    """
    high = (mx.view(second, mx.uint32) + 1024) >> 11
    bound = most * mx.sqrt(mx.view(high << 11, mx.float32))
    fraction = mx.where(bound > 0, first / mx.maximum(bound, 1e-38), 0.0)
    # Comparisons with NaN are false, so NaN is never converted to an integer.
    fraction = mx.where(mx.abs(fraction) <= 1, fraction, mx.where(fraction > 0, 1.0, -1.0))
    low = mx.floor(2047.0 * fraction + dither).astype(mx.int32) + 2048
    return (high << 12) | low.astype(mx.uint32)


def _dither(gradient: mx.array) -> mx.array:
    """Return pseudo-random numbers in [0, 1), computed from the bits of the gradient with a hash
    function."""
    return ((mx.view(gradient, mx.uint32) * HASH_PRIME_Y) >> 8).astype(mx.float32) / FRACTION_UNITS


def unpack_moments(packed: mx.array, most: mx.array | float) -> tuple[mx.array, mx.array]:
    """Return the first and second moments as float32 arrays. Inverse of `pack_moments`."""
    second = mx.view((packed >> 12) << 11, mx.float32)
    fraction = ((packed & 4095).astype(mx.int32) - 2048).astype(mx.float32) / 2047.0
    return fraction * most * mx.sqrt(second), second


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
        >>> from nerfmac.ops.adam import moving_average
        >>> weight, skipped = mx.array(0.25), mx.array(0)
        >>> moving_average(mx.array([0.0, 8.0]), mx.array([4.0, 4.0]), weight, skipped)
        array([1, 7], dtype=float32)
    """
    arrays = [values.reshape(-1) for values in (average, newest, weight, skipped)]
    _AVERAGE_TAKES.check(*arrays)
    return _moving_average(*arrays).reshape(average.shape)


def _average_reference(
    average: mx.array, newest: mx.array, weight: mx.array, skipped: mx.array
) -> mx.array:
    return average + mx.where(skipped == 0, weight, 0.0) * (newest - average)


@operation("moving_average", _average_reference)
def _moving_average(
    average: mx.array, newest: mx.array, weight: mx.array, skipped: mx.array
) -> list[mx.array]:
    return _AVERAGE(average, newest, weight, skipped, grid=(average.size, 1, 1))
