"""Exchange between ranks in training: gradients at every step, or parameters every few steps.

The mean of the ranks' gradients, weighted by each one's rays in the loss, is the gradient of all
rays together. So N ranks take the steps of one rank with N times the rays and samples. Local SGD
(McMahan et al. 2017) averages parameters every few steps instead. It loads the network less, but
its steps are different ones.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import Any

import mlx.core as mx

from nerfmac.backend import Arrays, compile_seldom
from nerfmac.config import RanksConfig
from nerfmac.fields.field import Parameters
from nerfmac.ranks import Ranks
from nerfmac.training.state import TrainState

log = logging.getLogger("nerfmac")

COMPARED_EVERY = 256
"""Steps between comparisons of all ranks' states."""


def from_first(ranks: Ranks, state: TrainState) -> TrainState:
    """The first rank's `state`, on all ranks, bit for bit."""
    if ranks.size == 1:
        return state
    numbers = {name: ranks.number_of_first(value) for name, value in state.numbers().items()}
    integers = {name: int(numbers[name]) for name in ("step", "rays")}
    return TrainState.of(ranks.of_first(state.arrays()), numbers | integers)


def synchronised(ranks: Ranks, state: TrainState) -> TrainState:
    """`state`; every `COMPARED_EVERY` steps the first rank's, if the ranks' states differ.

    Ranks on the same kind of chip do not differ. Others may round a last bit differently.
    """
    if ranks.size == 1 or state.step % COMPARED_EVERY:
        return state
    if ranks.alike(state.parameters | state.sampling | state.scaling):
        return state
    log.info("the ranks differ after step %d; all go on with the first one's state", state.step)
    return from_first(ranks, state)


class LocalSgd:
    """Averages the parameters of ranks that take steps of their own."""

    def __init__(self, ranks: Ranks, config: RanksConfig) -> None:
        self._every = config.every if ranks.size > 1 else 1
        self._last: Parameters | None = None
        self._last_step = 0
        self._mean = compile_seldom(partial(_mean, ranks, config))

    @property
    def is_on(self) -> bool:
        """Whether ranks take steps of their own between averages."""
        return self._every > 1

    def begin(self, state: TrainState) -> None:
        """Note the parameters of `state`, which all ranks have in common."""
        self._last, self._last_step = state.parameters, state.step

    def trial(self, state: TrainState) -> Any:
        """An average whose result is dropped, so that later ones need no compilation."""
        return self._mean(state.parameters, state.parameters, state.scaling) if self.is_on else {}

    def end(self, state: TrainState, *, force_average: bool) -> TrainState:
        """`state` after a step, with averaged parameters if it is time to average.

        That is every few steps, or with `force_average`, which must be the same on all ranks. A
        second call after the same step changes nothing.
        """
        if not self.is_on or self._last is None or state.step == self._last_step:
            return state
        if state.step % self._every and not force_average:
            return state
        mean, scaling = self._mean(state.parameters, self._last, state.scaling)
        self._last, self._last_step = mean, state.step
        return replace(state, parameters=mean, scaling=scaling)


def _mean(
    ranks: Ranks, config: RanksConfig, parameters: Parameters, last: Parameters, scaling: Arrays
) -> tuple[Parameters, Arrays]:
    """The ranks' mean `parameters`, exchanged as differences from `last`, which all ranks have.

    All ranks get the first one's `scaling`, the fields of a `LossScale`.
    """
    changes = {name: values - last[name] for name, values in parameters.items()}
    means = ranks.weighted_mean(changes, mx.array(1.0), config.allreduce_dtype)
    mine = mx.stack([values.astype(mx.float32) for values in scaling.values()])
    first = ranks.sum(mine if ranks.is_first else mx.zeros_like(mine))
    agreed = {name: first[i].astype(scaling[name].dtype) for i, name in enumerate(scaling)}
    return {name: last[name] + change for name, change in means.items()}, agreed
