"""Adam, as Instant-NGP uses it: bias correction, a tiny epsilon, L2 on the networks only."""

from __future__ import annotations

from typing import NamedTuple

import mlx.core as mx

from nerfmac.config import OptimiserConfig
from nerfmac.field import Parameters


class Updated(NamedTuple):
    """Everything one step changes; each a tree shaped like the parameters."""

    parameters: Parameters
    average: Parameters
    first_moment: Parameters
    second_moment: Parameters


def zeros_like(parameters: Parameters) -> Parameters:
    """The moments before the first step."""
    return {name: mx.zeros_like(values) for name, values in parameters.items()}


def adam(
    now: Updated, gradients: Parameters, step: mx.array, rate: mx.array, config: OptimiserConfig
) -> Updated:
    """One step of Adam (Kingma and Ba 2015, algorithm 1), and of the average of the parameters.

    `step` () counts from 1, `rate` () is the learning rate, both float32. The average leaves out
    the weight of its start, as Adam's moments do, so it is the parameters themselves at step 1.
    """
    after = Updated({}, {}, {}, {})
    # step sizes and corrections once, not once an element
    correction = 1.0 - mx.power(config.beta2, step)
    size = rate * mx.sqrt(correction) / (1.0 - mx.power(config.beta1, step))
    epsilon = config.epsilon * mx.sqrt(correction)
    fresh = (1.0 - config.average) / (1.0 - mx.power(config.average, step))
    for name, values in now.parameters.items():
        gradient = gradients[name]
        if name != "table":
            gradient = gradient + config.l2 * values
        first = config.beta1 * now.first_moment[name] + (1.0 - config.beta1) * gradient
        second = config.beta2 * now.second_moment[name] + (1.0 - config.beta2) * gradient**2
        moved = values - size * first / (mx.sqrt(second) + epsilon)
        average = now.average[name]
        after.parameters[name] = moved
        after.average[name] = average + fresh * (moved - average)
        after.first_moment[name] = first
        after.second_moment[name] = second
    return after
