"""Measurement of the training time. The time between a report and the next step is excluded.

System sleep does not count, because `time.perf_counter` does not advance during sleep (it reads
CLOCK_MONOTONIC on Linux and mach_absolute_time on macOS). However, `time.perf_counter` advances
while the process is stopped by Ctrl-Z or SIGSTOP. The SIGCONT handler `note_continued` therefore
sets the time of the interrupted step to zero.
"""

import time

_continued = 0  # number of SIGCONT signals so far


def note_continued(*_: object) -> None:
    """Handle SIGCONT: all clocks exclude the time since their last reading."""
    global _continued
    _continued += 1


class Clock:
    """Measures the training time in seconds. The time between the last `read` and `go_on` does not
    count."""

    def __init__(self, seconds: float) -> None:
        """Create a clock. `seconds` is the training time so far."""
        self._seconds = self._last_lap = seconds
        self.go_on()

    def go_on(self) -> None:
        """Resume counting the training time."""
        self._since, self._continued = time.perf_counter(), _continued

    def read(self) -> float:
        """Return the training time so far in seconds."""
        before, was_continued = self._since, self._continued != _continued
        self.go_on()
        if not was_continued:
            self._seconds += self._since - before
        return self._seconds

    def is_over(self, interval: float | None) -> bool:
        """Return whether the current lap had lasted at least `interval` seconds at the last `read`.

        If `interval` is None, return False.
        """
        return interval is not None and self._seconds - self._last_lap >= interval

    def lap(self) -> float:
        """Start a new lap, and return the duration of the previous lap in seconds until the last
        `read`."""
        passed = self._seconds - self._last_lap
        self._last_lap = self._seconds
        return max(passed, 1e-9)
