"""How many rays are traced by one launch: few at first, then as many as take a moment.

A system ends a launch that holds up its display, and macOS does so within a second or less
(ml-explore/mlx issue 3267). How long rays take depends on the GPU, on the field and on how much of
the scene is fog, so it is measured. A CPU has no display to hold up.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import mlx.core as mx

from nerfmac.backend import current_device

Result = TypeVar("Result")

FIRST = 2**14
MOST = 2**20
LEAST = 2**10
MOMENT = 0.05
"""Seconds that a tile may take."""


class Tiles:
    """Chooses the rays of each tile by the time that the one before it took."""

    def __init__(self) -> None:
        self.rays = MOST if current_device() == "cpu" else FIRST
        """Of the next tile, at most."""

    def run(self, trace: Callable[[], Result], is_last: bool) -> Result:
        """What `trace` gives for a tile. It is waited for if another one is to follow.

        A tile's time is its own: what was launched before it is waited for too.
        """
        if is_last or self.rays == MOST:
            result = trace()
            mx.async_eval(result)
            return result
        mx.synchronize()
        start = time.perf_counter()
        result = trace()
        mx.eval(result)
        self._learn(time.perf_counter() - start)
        return result

    def _learn(self, seconds: float) -> None:
        if seconds > MOMENT:
            self.rays = max(self.rays // 2, LEAST)
        elif seconds < MOMENT / 8:
            self.rays = min(self.rays * 4, MOST)
