"""Exchange between ranks in training: all of them keep the same state.

The mean of the ranks' gradients, weighted by each one's rays in the loss, is the gradient of all
rays together. So N ranks take the steps of one rank with N times the rays and samples.
"""

from __future__ import annotations

import logging

from nerfmac.ranks import Ranks
from nerfmac.training.state import TrainState

log = logging.getLogger("nerfmac")

COMPARED_EVERY = 256
"""Steps after which all ranks' parameters, sampler states and loss scales are compared."""


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
