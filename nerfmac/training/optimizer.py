"""Adam as in Instant-NGP: with bias correction, a tiny epsilon, and L2 regularization of some
parameters.

This module also updates the exponential moving average (EMA) of the parameters that rendering uses.
After the first eight steps, the average is updated only in every eighth step, because an update
takes a quarter of the time of an Adam step, and parameters change little in eight steps.
"""

from collections.abc import Collection, Iterable
from math import sqrt
from typing import NamedTuple, Self

import mlx.core as mx
import numpy as np

from nerfmac.backend import Arrays
from nerfmac.common import Float32Array
from nerfmac.config import OptimizerConfig, ParameterGroup
from nerfmac.fields.field import Parameters
from nerfmac.ops.adam import AdamStep, adam_step, most_first, moving_average

AVERAGED_EVERY = 8
"""Number of steps between updates of the average, after the first eight steps."""


class OptimizerState(NamedTuple):
    """State of Adam: parameters and moments, keyed by parameter name."""

    parameters: Parameters
    moments: Arrays  # uint32, packed by `ops.adam`


def no_moments(parameters: Parameters) -> Arrays:
    """Return the moments before the first step. All of them are zero."""
    return {name: mx.zeros(values.shape, mx.uint32) for name, values in parameters.items()}


class StepNumbers(NamedTuple):
    """Adam settings for one step, such as the step size. Each array contains the fields of an
    `ops.adam.AdamStep`."""

    plain: mx.array  # settings for parameters without L2, such as tables
    regularized: mx.array  # settings for networks, with L2 and a separate learning rate
    groups: dict[str, mx.array]  # settings for parameters with a `ParameterGroup`; keys are names

    @classmethod
    def of(cls, numbers: mx.array, names: Iterable[str] = ()) -> Self:
        """Return the settings in the `numbers` of `step_numbers`, of any shape. `names` are those
        of the groups."""
        plain, regularized, *groups = numbers.reshape(-1, len(AdamStep._fields))
        return cls(plain, regularized, dict(zip(names, groups, strict=True)))


def step_numbers(
    step: int,
    factor: float,
    config: OptimizerConfig,
    groups: Iterable[ParameterGroup] = (),
) -> Float32Array:
    """Return the Adam settings for `step`, counted from 1, with `factor` times the learning rate of
    the configuration.

    Each row of the result (rows, 6) contains the fields of an `AdamStep`. The first row is for
    parameters without L2, the second for networks, and the others for each of the `groups`. Bias
    correction follows Kingma and Ba 2015, section 2.
    """
    plain = _numbers(step, factor * config.rate, 0.0, config)
    regularized = plain._replace(size=config.networks * plain.size, l2=config.l2)
    others = (_numbers(group.step or step, group.rate, group.l2, config) for group in groups)
    return np.array([plain, regularized, *others], np.float32)


def _numbers(step: int, rate: float, l2: float, config: OptimizerConfig) -> AdamStep:
    correction = sqrt(1.0 - config.beta2**step)
    return AdamStep(
        beta1=config.beta1,
        beta2=config.beta2,
        size=rate * correction / (1.0 - config.beta1**step),
        epsilon=config.epsilon * correction,
        l2=l2,
        most=most_first(config.beta1, config.beta2),
    )


def adam(
    before: OptimizerState,
    gradients: Parameters,
    numbers: StepNumbers,
    regularized: Collection[str],
    unscale: mx.array,
) -> OptimizerState:
    """Apply one Adam step (Kingma and Ba 2015, algorithm 1) to all parameters that have
    `gradients`.

    `regularized` contains the names of parameters with L2 regularization. `unscale` (1,) float32 is
    as in `adam_step`.
    """
    after = OptimizerState({}, {})
    for name, gradient in gradients.items():
        common = numbers.regularized if name in regularized else numbers.plain
        own = numbers.groups.get(name, common)
        after.parameters[name], after.moments[name] = adam_step(
            before.parameters[name], before.moments[name], gradient, unscale, own
        )
    return after


def is_averaged(step: int) -> bool:
    """Return whether the average is updated after `step`, counted from 1.

    The average is updated after each of the first 8 steps, and then after every 8th step.
    """
    return step < AVERAGED_EVERY or step % AVERAGED_EVERY == 0


def newest_weight(step: int, config: OptimizerConfig) -> float:
    """Return the weight of the newest parameters when the average is updated after `step`.

    Weights of older parameters decay by the factor `config.average` per step. The average is
    bias-corrected like the moments of Adam, so after step 1 the average equals the parameters.
    """
    steps = AVERAGED_EVERY if step > AVERAGED_EVERY else 1  # number of steps since the last update
    return (1.0 - config.average**steps) / (1.0 - config.average**step)


def averaged(
    average: Parameters, parameters: Parameters, weight: mx.array, skipped: mx.array
) -> Parameters:
    """Update the average with the newest `parameters`, given their `weight` as a float32 scalar.

    If `skipped`, an int32 scalar, is not 0, the step was skipped, and the average does not change.
    """
    return {
        name: moving_average(old, parameters[name], weight, skipped)
        for name, old in average.items()
    }
