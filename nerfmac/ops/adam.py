"""One step of Adam over one array, in one pass (Kingma and Ba 2015, algorithm 1).

Its time is that of reading four arrays and writing three: a kernel does it once.
"""

from __future__ import annotations

from typing import NamedTuple

import mlx.core as mx

from nerfmac import checks
from nerfmac.backend import Kernel, runs_kernel

_NAMES = ("parameters", "first", "second")
_ADAM = Kernel(
    "adam",
    "adam",
    inputs=(*_NAMES, "gradient", "numbers"),
    outputs=tuple(f"new_{name}" for name in _NAMES),
    rows="gradient_shape[0]",
)


class Moments(NamedTuple):
    """What a step changes of one array; all of one shape, float32."""

    parameters: mx.array
    first: mx.array  # of the gradient
    second: mx.array  # of its square


class Step(NamedTuple):
    """A step's numbers, each a scalar: float, or () float32."""

    beta1: float
    beta2: float
    size: mx.array  # the learning rate with both moments' bias corrections
    epsilon: mx.array  # with the second moment's
    l2: float  # weight of half the squared parameters in the loss
    unscale: float  # what the gradient is multiplied by


def adam_step(now: Moments, gradient: mx.array, step: Step) -> Moments:
    """`now` after one step along `gradient`, of the same shape and type.

    Raises `InputError` for a wrong shape or type.
    """
    for name, values in (*now._asdict().items(), ("gradient", gradient)):
        checks.shape(name, values, gradient.shape)
        checks.dtype(name, values, mx.float32)
    if not runs_kernel("adam"):
        return adam_reference(now, gradient, step)
    numbers = mx.stack([mx.array(number, mx.float32) for number in step])
    flat = [values.reshape(-1) for values in (*now, gradient)]
    results = _ADAM(
        *flat,
        numbers,
        grid=(gradient.size, 1, 1),
        output_shapes=[(gradient.size,)] * 3,
        output_dtypes=[mx.float32] * 3,
    )
    return Moments(*(values.reshape(gradient.shape) for values in results))


def adam_reference(now: Moments, gradient: mx.array, step: Step) -> Moments:
    """The same in plain MLX."""
    slope = step.unscale * gradient + step.l2 * now.parameters
    first = step.beta1 * now.first + (1.0 - step.beta1) * slope
    second = step.beta2 * now.second + (1.0 - step.beta2) * mx.square(slope)
    moved = now.parameters - step.size * first / (mx.sqrt(second) + step.epsilon)
    return Moments(moved, first, second)
