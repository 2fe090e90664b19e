"""One step of Adam over one array, in one pass (Kingma and Ba 2015, algorithm 1).

An element without a gradient stays as it is, with its moments, as in tiny-cuda-nn: of a table each
step reads a part only, and what it does not read should not drift on by its momentum.

The time goes into reading four arrays and writing three; a kernel does each of these once.
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
    inputs=(*_NAMES, "gradient", "step"),
    outputs=tuple(f"new_{name}" for name in _NAMES),
    rows="gradient_shape[0]",
)


class Moments(NamedTuple):
    """One array of parameters and its two moments, all of one shape, float32."""

    parameters: mx.array
    first: mx.array  # running mean of the gradient
    second: mx.array  # running mean of its square


class Step(NamedTuple):
    """A step's settings."""

    beta1: float
    beta2: float
    size: float  # the learning rate, corrected for both moments' bias
    epsilon: float  # Adam's, corrected for the second moment's bias
    l2: float  # weight of half the squared parameters in the loss
    unscale: float  # factor on the gradient


def adam_step(now: Moments, gradient: mx.array, step: mx.array) -> Moments:
    """`now` after one step along `gradient`, of the same shape and type.

    `step` is a `Step` as an array, (6,) float32: it changes from step to step, and a compiled
    function would keep plain numbers as constants. Raises `InputError` for a wrong shape or type.
    """
    for name, values in (*now._asdict().items(), ("gradient", gradient)):
        checks.shape(name, values, gradient.shape)
        checks.dtype(name, values, mx.float32)
    checks.shape("step", step, (len(Step._fields),))
    checks.dtype("step", step, mx.float32)
    if not runs_kernel("adam"):
        return adam_reference(now, gradient, step)
    flat = [values.reshape(-1) for values in (*now, gradient)]
    results = _ADAM(
        *flat,
        step,
        grid=(gradient.size, 1, 1),
        output_shapes=[(gradient.size,)] * 3,
        output_dtypes=[mx.float32] * 3,
    )
    return Moments(*(values.reshape(gradient.shape) for values in results))


def adam_reference(now: Moments, gradient: mx.array, step: mx.array) -> Moments:
    """The same in plain MLX."""
    beta1, beta2, size, epsilon, l2, unscale = (step[i] for i in range(len(Step._fields)))
    slope = unscale * gradient + l2 * now.parameters
    first = beta1 * now.first + (1.0 - beta1) * slope
    second = beta2 * now.second + (1.0 - beta2) * mx.square(slope)
    moved = now.parameters - size * first / (mx.sqrt(second) + epsilon)
    after = Moments(moved, first, second)
    return Moments(*(mx.where(slope == 0, *each) for each in zip(now, after, strict=True)))
