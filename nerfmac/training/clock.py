"""Training time, without the time between a report and the next step.

Time during system sleep does not count, because `time.perf_counter` does not advance (it is
CLOCK_MONOTONIC on Linux, mach_absolute_time on macOS). It advances while the process is stopped
(Ctrl-Z, SIGSTOP). With `note_continued` as the handler of SIGCONT, the step during which the
process was stopped therefore counts as zero.
"""

from __future__ import annotations

import time

_continued = 0  # number of SIGCONT signals so far


def note_continued(*_: object) -> None:
    """Handler of SIGCONT: all clocks exclude the time since they were last read."""
    global _continued
    _continued += 1


class Clock:
    """Counts seconds of training; time from the last `read` to `go_on` does not count."""

    def __init__(self, seconds: float) -> None:
        """`seconds`: the training time so far."""
        self._seconds = self._last_lap = seconds
        self.go_on()

    def go_on(self) -> None:
        """Count time again from now on."""
        self._since, self._continued = time.perf_counter(), _continued

    def read(self) -> float:
        """Seconds of training so far."""
        before, was_continued = self._since, self._continued != _continued
        self.go_on()
        if not was_continued:
            self._seconds += self._since - before
        return self._seconds

    def is_over(self, interval: float | None) -> bool:
        """Whether the lap had lasted `interval` seconds at the last `read`; False if it is None."""
        return interval is not None and self._seconds - self._last_lap >= interval

    def lap(self) -> float:
        """Begin a new lap; return the seconds of the old one up to the last `read`."""
        passed = self._seconds - self._last_lap
        self._last_lap = self._seconds
        return max(passed, 1e-9)
