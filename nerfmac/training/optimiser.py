"""Adam, as Instant-NGP uses it: bias correction, a tiny epsilon, L2 on some parameters only.

Also the running average of the parameters, which pictures are rendered with. It is updated every
eighth step only: an update takes a quarter of Adam's time, and in eight steps the parameters move
little.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import sqrt
from typing import NamedTuple

import mlx.core as mx

from nerfmac.backend import Arrays
from nerfmac.config import OptimiserConfig
from nerfmac.fields.field import Parameters
from nerfmac.ops.adam import Step, adam_step, most_first

AVERAGED_EVERY = 8  # steps


class Updated(NamedTuple):
    """What one step of Adam changes; each field has the names and shapes of the parameters."""

    parameters: Parameters
    moments: Arrays  # uint32, as `ops.adam` packs them


def no_moments(parameters: Parameters) -> Arrays:
    """The moments before the first step."""
    return {name: mx.zeros(values.shape, mx.uint32) for name, values in parameters.items()}


class StepNumbers(NamedTuple):
    """Adam's numbers of one step, as `ops.adam` takes them."""

    plain: mx.array
    decayed: mx.array  # with L2, and a learning rate of its own
    own: dict[str, mx.array]  # those of parameters with numbers of their own, by name


class OwnRate(NamedTuple):
    """What Adam does otherwise with a parameter."""

    rate: float
    l2: float
    step: int | None = None  # the number of its own steps, for the bias; None: of all steps


def step_numbers(
    step: int,
    rate: float,
    config: OptimiserConfig,
    own: Mapping[str, OwnRate] | None = None,
) -> StepNumbers:
    """The numbers of step number `step`, counted from 1, at the learning rate `rate`.

    `own`: other rates of some parameters. Bias correction as in Kingma and Ba 2015, section 2.
    """
    numbers = _numbers(step, rate, 0.0, config)
    decayed = numbers._replace(size=config.networks * numbers.size, l2=config.l2)
    others = {
        name: mx.array(_numbers(each.step or step, each.rate, each.l2, config))
        for name, each in (own or {}).items()
    }
    return StepNumbers(mx.array(numbers), mx.array(decayed), others)


def _numbers(step: int, rate: float, l2: float, config: OptimiserConfig) -> Step:
    correction = sqrt(1.0 - config.beta2**step)
    return Step(
        beta1=config.beta1,
        beta2=config.beta2,
        size=rate * correction / (1.0 - config.beta1**step),
        epsilon=config.epsilon * correction,
        l2=l2,
        most=most_first(config.beta1, config.beta2),
    )


def adam(
    now: Updated,
    gradients: Parameters,
    numbers: StepNumbers,
    decayed: Collection[str],
    unscale: mx.array,
) -> Updated:
    """One step of Adam (Kingma and Ba 2015, algorithm 1), with L2 on the `decayed` parameters.

    `unscale` (1,) float32 is as in `adam_step`.
    """
    after = Updated({}, {})
    for name, gradient in gradients.items():
        plain = numbers.decayed if name in decayed else numbers.plain
        own = numbers.own.get(name, plain)
        moved = adam_step(now.parameters[name], now.moments[name], gradient, unscale, own)
        for tree, values in zip(after, moved, strict=True):
            tree[name] = values
    return after


def is_averaged(step: int) -> bool:
    """Whether the average is updated after `step`, counted from 1: at first after every step."""
    return step < AVERAGED_EVERY or step % AVERAGED_EVERY == 0


def newest_weight(step: int, config: OptimiserConfig) -> float:
    """The newest parameters' weight in the average after `step`, for which `is_averaged` holds.

    With every step the weights of older parameters fall by the factor `config.average`. As with
    Adam's moments, the bias of the start is corrected: at step 1 the average is the parameters.
    """
    steps = AVERAGED_EVERY if step > AVERAGED_EVERY else 1  # since the last update
    return (1.0 - config.average**steps) / (1.0 - config.average**step)


def averaged(average: Parameters, parameters: Parameters, weight: mx.array) -> Parameters:
    """The average updated by the newest parameters, whose `weight` is () float32."""
    return {name: old + weight * (parameters[name] - old) for name, old in average.items()}
