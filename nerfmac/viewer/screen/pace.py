"""How large a picture can be to be drawn in a given time.

Pictures have one of few sizes, so that what is compiled for a size is used again.
"""

from __future__ import annotations

import math
from collections import deque
from itertools import combinations
from statistics import median

SCALES = tuple(2.0 ** (-step / 2) for step in range(7))
"""Sides of a picture relative to the full one, down to an eighth: half as many pixels each."""

FLOOR = 1 / 8
"""Smallest part of the full picture's pixels, unless that part takes longer than `SLOWEST`."""

SLOWEST = 0.15
"""Seconds: a picture that takes longer becomes smaller than `FLOOR`."""

LATE = 1.25
"""A picture that takes longer than this many times its time is late."""

RECENT = 12
"""Pictures whose times are compared."""


class Pace:
    """How many pixels can be drawn in `seconds`, learnt from the times of recent pictures.

    A picture of n pixels takes `fixed + per_pixel * n` seconds; `fixed` is what launches and copies
    take at any size. Both are the Theil-Sen fit to recent pictures: `per_pixel` is the median slope
    between two of them. A few pictures that other programs slow down do not change it.

    Where `fixed` is more than half of `seconds`, a picture may take twice `fixed`: no smaller one
    takes less than half of that.
    """

    def __init__(self, seconds: float, pixels: int) -> None:
        """`pixels`: a first guess."""
        self._seconds, self._pixels = seconds, float(pixels)
        self._recent: deque[tuple[int, float]] = deque(maxlen=RECENT)  # pixels, seconds
        self._was_late = False
        self._fixed: float | None = None  # seconds; None: all pictures so far had one size
        self._per_pixel = 0.0  # seconds

    def learn(self, pixels: int, seconds: float) -> None:
        """`pixels` took `seconds`.

        A late picture counts only after another late one: the first may have waited for a compiler.
        """
        is_late = seconds > LATE * self._allowed(self._seconds)
        is_believed, self._was_late = self._was_late or not is_late, is_late
        if not is_believed:
            return
        self._recent.append((pixels, seconds))
        self._fit()
        fitting = self._fitting(self._seconds)
        if fitting > self._pixels:
            self._pixels = max(self._pixels, min(fitting, 2.0 * pixels))
        elif fitting < pixels / LATE:
            self._pixels = fitting

    def _fit(self) -> None:
        pairs = combinations(self._recent, 2)
        slopes = [(t - s) / (n - m) for (m, s), (n, t) in pairs if n != m]
        if slopes:
            self._per_pixel = max(median(slopes), 0.0)
            self._fixed = max(median(t - self._per_pixel * n for n, t in self._recent), 0.0)
            return
        pixels, usual = self._recent[-1][0], median(t for _, t in self._recent)
        fixed = self._fixed
        if fixed is None:  # guessed, so that the next picture has another size, which tells
            fixed = usual if usual <= max(self._seconds, SLOWEST) else 0.0
        self._per_pixel = max(usual - fixed, 0.0) / pixels

    def _allowed(self, seconds: float) -> float:
        return max(seconds, 2.0 * (self._fixed or 0.0))

    def _fitting(self, seconds: float) -> float:
        """The pixels that fit in `seconds`, or in twice `fixed`."""
        left = self._allowed(seconds) - (self._fixed or 0.0)
        return left / self._per_pixel if self._per_pixel else math.inf

    def scale(self, pixels: int) -> float:
        """Largest of `SCALES` at which a picture of `pixels` is in time; at least the floor's."""
        least = min(FLOOR * pixels, self._fitting(SLOWEST))
        most = 1.01 * max(self._pixels, least)
        return next((scale for scale in SCALES if pixels * scale * scale <= most), SCALES[-1])

    def rows(self, width: int) -> int:
        """How many rows of `width` pixels there is time for; a power of two, at least 4."""
        return 2 ** min(max(int(math.log2(max(self._pixels / width, 1.0))), 2), 12)
