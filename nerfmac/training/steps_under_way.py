"""`Queue`: how far the host may be ahead of the device."""

from __future__ import annotations

from collections import deque

import mlx.core as mx

from nerfmac.common.timeline import interval
from nerfmac.training.state import TrainState


class Queue:
    """Steps that the device has not finished while the host builds the next: at most two."""

    def __init__(self) -> None:
        self._steps: deque[mx.array] = deque()

    def add(self, state: TrainState) -> None:
        """Start computing `state`, the result of a step; wait until at most two are unfinished."""
        with interval("launch"):
            mx.async_eval(state.arrays())
        self._steps.append(next(iter(state.parameters.values())))
        if len(self._steps) > 2:
            with interval("wait for the device"):
                mx.eval(self._steps.popleft())
