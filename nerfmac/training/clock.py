"""The time that training takes, without what passes between its reports."""

from __future__ import annotations

import time


class Clock:
    """Seconds of training; what passes between `lap` and `go_on` does not count."""

    def __init__(self, seconds: float) -> None:
        """`seconds`: those of training so far."""
        self._seconds = self._last_lap = seconds
        self.go_on()

    def go_on(self) -> None:
        """From now on time counts again."""
        self._since = time.perf_counter()

    def read(self) -> float:
        """All seconds so far."""
        now = time.perf_counter()
        self._seconds += now - self._since
        self._since = now
        return self._seconds

    def is_over(self, turn: float | None) -> bool:
        """Whether a lap has lasted for `turn` seconds, as last read."""
        return turn is not None and self._seconds - self._last_lap >= turn

    def lap(self) -> float:
        """Seconds since the last lap, as last read."""
        passed = self._seconds - self._last_lap
        self._last_lap = self._seconds
        return max(passed, 1e-9)
