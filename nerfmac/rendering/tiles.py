"""`Tiles` adapts the number of rays per launch so that a launch takes about `MOMENT` seconds.

If a launch delays the display, macOS stops it after a second or less (ml-explore/mlx issue 3267).
The time per ray is measured, because it depends on the GPU, the field, and the haze in the scene.
Launches on a CPU do not delay the display.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import mlx.core as mx

from nerfmac.backend import current_device
from nerfmac.backend.watchdog import SHORTER, is_relaxed

Result = TypeVar("Result")

FIRST, LEAST, MOST = 2**14, 2**10, 2**20
"""Number of rays in the first tile on a GPU, and minimum and maximum numbers of rays in later
tiles."""
MOMENT = 0.05
"""Target rendering time of a tile, in seconds."""


class Tiles:
    """Adapts the number of rays per tile, from `LEAST` to `MOST`, to the measured rendering time.

    If a tile takes longer than `MOMENT`, the number is halved. If a tile takes less than `MOMENT` /
    8, the number is multiplied by 4. In the relaxed mode (`nerfmac.backend.watchdog`), the target
    time and the first tile are smaller.
    """

    def __init__(self) -> None:
        self._moment = MOMENT / (SHORTER if is_relaxed() else 1)
        first = LEAST if is_relaxed() else FIRST
        self.rays = MOST if current_device() == "cpu" else first
        """Maximum number of rays in the next tile."""

    def run(self, trace: Callable[[], Result], is_last: bool) -> Result:
        """Run `trace` for one tile, return its result, and adapt the size of the next tile.

        To measure a tile, the method first waits for all earlier launches and then for the tile. It
        does not measure the last tile or tiles of `MOST` rays.
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
        if seconds > self._moment:
            self.rays = max(self.rays // 2, LEAST)
        elif seconds < self._moment / 8:
            self.rays = min(self.rays * 4, MOST)
