"""How large a picture can be for the time there is, and whose turn it is.

Pictures have one of few sizes, so that what is compiled for a size is used again.
"""

from __future__ import annotations

import math

SCALES = tuple(2.0 ** (-step / 2) for step in range(11))
"""Sides of a picture relative to the full one: half as many pixels each."""

FORGET = 1.0
"""Seconds of work after which the accounts of `Shares` have mostly forgotten."""


class Pace:
    """Learns what a pixel costs, and says how many there is time for."""

    def __init__(self) -> None:
        self._seconds_per_pixel = 1e-6  # a first guess, between a CPU and a GPU

    def learn(self, pixels: int, seconds: float) -> None:
        """A whole picture of `pixels` took `seconds`."""
        measured = max(seconds / max(pixels, 1), 1e-12)
        if measured > self._seconds_per_pixel:
            # Perhaps something was compiled, or the machine was busy: believe half of it.
            measured = math.sqrt(self._seconds_per_pixel * measured)
        self._seconds_per_pixel = measured

    def scale(self, pixels: int, seconds: float) -> float:
        """The largest of `SCALES` at which a picture of `pixels` takes at most `seconds`."""
        for scale in SCALES:
            if pixels * scale * scale * self._seconds_per_pixel <= seconds:
                return scale
        return SCALES[-1]

    def rows(self, width: int, seconds: float) -> int:
        """How many rows of `width` pixels there is time for; a power of two, at least 4."""
        rows = seconds / (width * self._seconds_per_pixel)
        return 2 ** min(max(int(math.log2(rows)), 2), 12)


class Shares:
    """Keeps account of the device's time between training and viewing."""

    def __init__(self) -> None:
        self._training = self._viewing = 0.0

    def spend(self, seconds: float, *, training: bool) -> None:
        """Either has had `seconds`."""
        kept = math.exp(-seconds / FORGET)
        gained = FORGET * (1.0 - kept)
        self._training = kept * self._training + (gained if training else 0.0)
        self._viewing = kept * self._viewing + (0.0 if training else gained)

    def viewing_is_due(self, share: float) -> bool:
        """Whether viewing has had no more than it should if training gets `share` of the time."""
        return self._viewing <= (1.0 - share) * (self._training + self._viewing)
