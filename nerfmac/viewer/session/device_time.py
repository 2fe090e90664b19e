"""`DeviceTime`: how much of the device's time training and viewing have recently had."""

from __future__ import annotations

import math

FORGET = 1.0
"""Seconds of work after which earlier work hardly counts."""


class DeviceTime:
    """Seconds of training and of viewing; the weight of older seconds decays exponentially."""

    def __init__(self) -> None:
        self._training = self._viewing = 0.0

    def spend(self, seconds: float, *, training: bool) -> None:
        """Count `seconds` of training, or else of viewing."""
        kept = math.exp(-seconds / FORGET)
        gained = FORGET * (1.0 - kept)
        self._training = kept * self._training + (gained if training else 0.0)
        self._viewing = kept * self._viewing + (0.0 if training else gained)

    def viewing_is_due(self, share: float) -> bool:
        """Whether viewing has had at most 1 - `share` of the time; `share` is for training."""
        return self._viewing <= (1.0 - share) * (self._training + self._viewing)
