"""How large a picture can be to be drawn in a given time.

Pictures have one of few sizes, so that what is compiled for a size is used again.
"""

from __future__ import annotations

import math

SCALES = tuple(2.0 ** (-step / 2) for step in range(11))
"""Sides of a picture relative to the full one: half as many pixels each."""


class Pace:
    """How many pixels can be drawn in `seconds`, learnt from the times of pictures so far.

    There is no model of a picture's time: part of it does not depend on the pixels, and other
    programs slow it down. After a picture that took less than half of the time, the next may be
    twice as large. Two late pictures in a row halve the size. One alone does not, because it may
    have waited for a compiler.
    """

    def __init__(self, seconds: float, pixels: int) -> None:
        """`pixels`: a first guess."""
        self._seconds, self._pixels = seconds, float(pixels)
        self._was_late = False

    def learn(self, pixels: int, seconds: float) -> None:
        """`pixels` took `seconds`."""
        is_late = seconds > 1.25 * self._seconds
        if seconds < 0.45 * self._seconds:
            self._pixels = max(self._pixels, 2.0 * pixels)
        elif is_late and self._was_late:
            self._pixels = min(self._pixels, 0.5 * pixels)
            is_late = False
        self._was_late = is_late

    def scale(self, pixels: int) -> float:
        """The largest of `SCALES` at which a picture of `pixels` is in time."""
        fitting = (scale for scale in SCALES if pixels * scale * scale <= 1.01 * self._pixels)
        return next(fitting, SCALES[-1])

    def rows(self, width: int) -> int:
        """How many rows of `width` pixels there is time for; a power of two, at least 4."""
        return 2 ** min(max(int(math.log2(max(self._pixels / width, 1.0))), 2), 12)
