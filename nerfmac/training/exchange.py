"""What ranks exchange in training: gradients at every step, or parameters at every few.

The mean of gradients over ranks, each by how many of its rays fit, is the gradient of all rays
together: N ranks take the steps that one would with N times the rays and slots. Parameters that
meet every few steps only (local SGD, McMahan et al. 2017) take less of the network, and no longer
the same steps.
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
"""Steps from one comparison of all ranks' parameters to the next."""


def of_first(ranks: Ranks, state: TrainState) -> TrainState:
    """The first rank's `state`, on all ranks, bit for bit."""
    if ranks.size == 1:
        return state
    numbers = {name: ranks.number_of_first(value) for name, value in state.numbers().items()}
    whole = {name: int(numbers[name]) for name in ("step", "rays")}
    return TrainState.of(ranks.of_first(state.arrays()), numbers | whole)


def kept_alike(ranks: Ranks, state: TrainState) -> TrainState:
    """`state`; or the first rank's, where it is time to look, and ranks were found to differ.

    Ranks on chips of one kind do not. Others may round differently, a last bit here and there.
    """
    if ranks.size == 1 or state.step % COMPARED_EVERY:
        return state
    if ranks.alike(state.parameters | state.sampling | state.scaling):
        return state
    log.info("the ranks differ after step %d; all go on with the first one's state", state.step)
    return of_first(ranks, state)


class Meeting:
    """Where ranks that take steps of their own bring their parameters together."""

    def __init__(self, ranks: Ranks, config: RanksConfig) -> None:
        self._every = config.every if ranks.size > 1 else 1
        self._last: Parameters | None = None
        self._last_step = 0
        self._mean = compile_seldom(partial(_met, ranks, config))

    @property
    def is_on(self) -> bool:
        """Whether ranks take steps of their own."""
        return self._every > 1

    def begin(self, state: TrainState) -> None:
        """Take note of the parameters that all ranks have in common."""
        self._last, self._last_step = state.parameters, state.step

    def trial(self, state: TrainState) -> Any:
        """A meeting of which nothing comes, so that the first one has nothing to compile."""
        return self._mean(state.parameters, state.parameters, state.scaling) if self.is_on else {}

    def end(self, state: TrainState, *, must_meet: bool) -> TrainState:
        """`state`, after a step, with the ranks' mean parameters if they meet after it.

        They do after every so many steps, and where they `must_meet`: all of them, or none. Where
        they have met after this step already, nothing changes.
        """
        if not self.is_on or self._last is None or state.step == self._last_step:
            return state
        if state.step % self._every and not must_meet:
            return state
        met, scaling = self._mean(state.parameters, self._last, state.scaling)
        self._last, self._last_step = met, state.step
        return replace(state, parameters=met, scaling=scaling)


def _met(
    ranks: Ranks, config: RanksConfig, now: Parameters, last: Parameters, scaling: Arrays
) -> tuple[Parameters, Arrays]:
    """The ranks' mean of `now`, sent as what has changed since `last`, which all have.

    The `scaling`, a `LossScale`'s fields, becomes the first rank's.
    """
    changes = {name: values - last[name] for name, values in now.items()}
    means = ranks.weighted_mean(changes, mx.array(1.0), config.words)
    mine = mx.stack([values.astype(mx.float32) for values in scaling.values()])
    first = ranks.sum(mine if ranks.is_first else mx.zeros_like(mine))
    agreed = {name: first[i].astype(scaling[name].dtype) for i, name in enumerate(scaling)}
    return {name: last[name] + change for name, change in means.items()}, agreed
