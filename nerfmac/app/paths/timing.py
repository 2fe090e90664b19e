"""Timing of a camera path: the traveled length as a monotone cubic function of time without jumps
in speed (Fritsch, Butland: A method for constructing local monotone piecewise cubic interpolants,
1984). In segments without a duration, the speed is the mean speed of the segments with a duration.
A segment with a duration but no length is a pause. The camera slows down before a pause and at
keyframes with `ease`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


class Timing:
    """Traveled length as a function of time, from 0 at the start of a path to 1 at its end."""

    def __init__(
        self, walked: Array, seconds: Sequence[float | None], ease: Sequence[bool]
    ) -> None:
        """Create the timing of n segments from the traveled length `walked` (n + 1,) at each
        keyframe and at the end of a closed path, the durations in seconds (n), and whether the
        camera stops at each of the n + 1 keyframes."""
        lengths = np.diff(walked)
        is_timed = np.array([time is not None for time in seconds], bool)
        given = np.array([time or 0.0 for time in seconds], np.float64)
        timed = float(lengths[is_timed].sum())
        pace = given.sum() / timed if timed > 0.0 else 1.0  # Seconds per length.
        spent = np.where(is_timed, given, pace * lengths)
        self.seconds = float(spent.sum()) if is_timed.any() else None
        """Duration of the path in seconds, or None if no keyframe has a time."""
        ends = np.r_[0.0, np.cumsum(spent)]
        whole = ends[-1] or 1.0
        self.times: Array = ends / whole
        """Times (n + 1,) of the keyframes, relative to the duration."""
        kept = np.r_[True, np.diff(self.times) > 0.0]
        rests = np.logical_or.reduceat(np.asarray(ease, bool), np.flatnonzero(kept))
        self._knots, self._walked = self.times[kept], walked[kept]
        self._speed = _speeds(self._knots, self._walked, rests)

    def walked(self, time: Array) -> Array:
        """Return the traveled lengths (k,) at `time` (k,) in [0, 1]."""
        if len(self._knots) == 1:
            return np.repeat(self._walked, len(time))
        segment = np.clip(np.searchsorted(self._knots, time, "right") - 1, 0, len(self._knots) - 2)
        span = self._knots[segment + 1] - self._knots[segment]
        part = (time - self._knots[segment]) / span
        rest = 1.0 - part
        out, into = span * self._speed[segment], span * self._speed[segment + 1]
        start, end = self._walked[segment], self._walked[segment + 1]
        # This is a cubic Hermite polynomial, written as a straight line plus a correction.
        bend = part * rest * (rest * (out - (end - start)) - part * (into - (end - start)))
        return start + part * (end - start) + bend


def _speeds(times: Array, walked: Array, rests: npt.NDArray[np.bool_]) -> Array:
    """Return the speeds (n,) at the knots, a weighted harmonic mean of the slopes on both sides."""
    if len(times) == 1:
        return np.zeros(1)
    spans = np.diff(times)
    slopes = np.diff(walked) / spans
    before, after = slopes[:-1], slopes[1:]
    first, second = spans[:-1] + 2.0 * spans[1:], 2.0 * spans[:-1] + spans[1:]
    moves = (before > 0.0) & (after > 0.0)
    safe_before, safe_after = np.where(moves, before, 1.0), np.where(moves, after, 1.0)
    mean = (first + second) / (first / safe_before + second / safe_after)
    speed = np.r_[slopes[0], np.where(moves, mean, 0.0), slopes[-1]]
    return np.where(rests, 0.0, speed)
