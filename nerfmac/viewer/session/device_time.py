"""`DeviceTime`: how much of the device's time training and viewing have had of late."""

from __future__ import annotations

import math

FORGET = 1.0
"""Seconds of work after which what was before them hardly counts."""


class DeviceTime:
    """An account of the seconds of both, in which older ones fade away exponentially."""

    def __init__(self) -> None:
        self._training = self._viewing = 0.0

    def spend(self, seconds: float, *, training: bool) -> None:
        """Training, or else viewing, has had `seconds`."""
        kept = math.exp(-seconds / FORGET)
        gained = FORGET * (1.0 - kept)
        self._training = kept * self._training + (gained if training else 0.0)
        self._viewing = kept * self._viewing + (0.0 if training else gained)

    def viewing_is_due(self, share: float) -> bool:
        """Whether viewing has had no more than is left for it if training gets `share`."""
        return self._viewing <= (1.0 - share) * (self._training + self._viewing)
