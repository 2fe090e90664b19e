"""`Tiles`: rays per launch, chosen so that each launch takes about `MOMENT` seconds.

The system ends a launch that holds up its display; macOS does so within a second or less
(ml-explore/mlx issue 3267). How long rays take depends on the GPU, the field and the fog in the
scene, so it is measured. A CPU has no display to hold up.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import mlx.core as mx

from nerfmac.backend import current_device

Result = TypeVar("Result")

FIRST, LEAST, MOST = 2**14, 2**10, 2**20
"""Rays of the first tile, and bounds for later ones."""
MOMENT = 0.05
"""Target time of a tile, in seconds."""


class Tiles:
    """Chooses the rays of each tile by the time of the one before."""

    def __init__(self) -> None:
        self.rays = MOST if current_device() == "cpu" else FIRST
        """Most rays of the next tile."""

    def run(self, trace: Callable[[], Result], is_last: bool) -> Result:
        """The result of `trace` for one tile, timed unless it is the last or tiles have MOST rays.

        To time it, waits first for everything launched before, then for the tile.
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
