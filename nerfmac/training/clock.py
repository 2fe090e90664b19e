"""The time that training takes; time between a report and the next step does not count."""

from __future__ import annotations

import time


class Clock:
    """Counts seconds of training; time between `lap` and `go_on` does not count."""

    def __init__(self, seconds: float) -> None:
        """`seconds`: the training so far."""
        self._seconds = self._last_lap = seconds
        self.go_on()

    def go_on(self) -> None:
        """Let time count again from now on."""
        self._since = time.perf_counter()

    def read(self) -> float:
        """All seconds so far."""
        now = time.perf_counter()
        self._seconds += now - self._since
        self._since = now
        return self._seconds

    def is_over(self, interval: float | None) -> bool:
        """Whether the lap had lasted for `interval` seconds at the last `read`; None: never."""
        return interval is not None and self._seconds - self._last_lap >= interval

    def lap(self) -> float:
        """Begin a new lap; return the seconds of the old one up to the last `read`."""
        passed = self._seconds - self._last_lap
        self._last_lap = self._seconds
        return max(passed, 1e-9)
