"""Communication between ranks during training, to keep the same state on all ranks.

If the ranks' gradients are averaged with the number of rays in each loss as weights, the result is
the gradient for all rays together. N ranks therefore take the same steps as one rank with N times
as many rays and samples. All ranks use the first rank's clock, because decisions based on separate
clocks could differ.
"""

import logging

from nerfmac.ranks import Ranks
from nerfmac.training.state import TrainState

log = logging.getLogger("nerfmac")

COMPARED_EVERY = 256
"""Number of steps between comparisons of the parameters, sampler states, and loss scales of all
ranks."""


class Exchange:
    """Communication between the ranks that train together. A single rank does not communicate."""

    def __init__(self, ranks: Ranks) -> None:
        self._ranks = ranks
        self._step, self._seconds, self._pace = 0, 0.0, 0.0
        self._next_comparison = 0

    def begin(self, state: TrainState) -> TrainState:
        """Broadcast the first rank's `state`, so that all ranks start from the same state."""
        state = self._of_first(state)
        self._step, self._seconds = state.step, state.train_seconds
        return state

    def synchronized(self, state: TrainState) -> TrainState:
        """Return a state that is the same on all ranks. The states are compared at the first update
        of the sampler state after `COMPARED_EVERY` steps.

        If the ranks' states differ, all ranks get the first rank's state. If the states are equal,
        the result is `state`. States do not differ between chips of the same kind. Different kinds
        of chips may round the last bit of a result differently.
        """
        if self._ranks.size == 1 or state.step < self._next_comparison:
            return state
        self._next_comparison = state.step + COMPARED_EVERY
        if self._ranks.alike(state.parameters | state.sampling | state.scaling):
            return state
        log.info(
            "the ranks differ after step %d; all continue with the state of the first rank",
            state.step,
        )
        return self._of_first(state)

    def seconds(self, step: int, seconds: float, *, must_agree: bool = False) -> float:
        """Return a training time that is equal on all ranks at `step`.

        Args:
            step: Number of the step.
            seconds: Training time of this rank.
            must_agree: Whether to broadcast the first rank's time. All ranks must pass True at the
                same `step`. If False, the time is extrapolated from the last two broadcast times
                without communication.

        Returns:
            Training time in seconds.
        """
        if self._ranks.size == 1:
            return seconds
        if must_agree:
            seconds = self._ranks.number_of_first(seconds)
            self._pace = (seconds - self._seconds) / max(step - self._step, 1)
            self._step, self._seconds = step, seconds
        return self._seconds + self._pace * (step - self._step)

    def _of_first(self, state: TrainState) -> TrainState:
        """Broadcast the `state` of the first rank to all ranks, bit for bit."""
        if self._ranks.size == 1:
            return state
        numbers = {name: self._ranks.number_of_first(v) for name, v in state.numbers().items()}
        integers = {name: int(numbers[name]) for name in ("step", "rays", "next_update")}
        return TrainState.of(self._ranks.of_first(state.arrays()), numbers | integers)
