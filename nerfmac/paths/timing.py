"""When the camera is how far along its path: from times to lengths.

Each way from keyframe to keyframe has its length and may have its time. Ways without a time are
walked at the mean speed of those with one. Between, the length is a cubic function of time with no
jump in its speed, that never goes back, by

    Fritsch, Butland: A method for constructing local monotone piecewise cubic interpolants (1984).

So without times the speed is constant. A way of no length that takes time is a pause, into which
the camera slows down; so it does at keyframes with `ease`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


class Timing:
    """The lengths walked at all times of a path; times run from 0 at its start to 1 at its end."""

    def __init__(
        self, walked: Array, seconds: Sequence[float | None], ease: Sequence[bool]
    ) -> None:
        """
        Args:
            walked: (n + 1,) length walked at each keyframe; of a closed path, at its end too.
            seconds: n times of the ways between; None: not given.
            ease: n + 1 flags, whether the camera rests there.
        """
        lengths = np.diff(walked)
        is_timed = np.array([each is not None for each in seconds], bool)
        given = np.array([each or 0.0 for each in seconds], np.float64)
        timed = float(lengths[is_timed].sum())
        pace = given.sum() / timed if timed > 0.0 else 1.0  # seconds per length
        spent = np.where(is_timed, given, pace * lengths)
        self.seconds = float(spent.sum()) if is_timed.any() else None
        """How long the path takes; None where no keyframe says so."""
        ends = np.r_[0.0, np.cumsum(spent)]
        whole = ends[-1] or 1.0
        self.times: Array = ends / whole
        """(n + 1,) when the camera is at each keyframe."""
        kept = np.r_[True, np.diff(self.times) > 0.0]
        rests = np.logical_or.reduceat(np.asarray(ease, bool), np.flatnonzero(kept))
        self._knots, self._walked = self.times[kept], walked[kept]
        self._speed = _speeds(self._knots, self._walked, rests)

    def walked(self, time: Array) -> Array:
        """The length walked at each `time` (k,) in [0, 1]."""
        if len(self._knots) == 1:
            return np.repeat(self._walked, len(time))
        way = np.clip(np.searchsorted(self._knots, time, "right") - 1, 0, len(self._knots) - 2)
        span = self._knots[way + 1] - self._knots[way]
        part = (time - self._knots[way]) / span
        rest = 1.0 - part
        out, into = span * self._speed[way], span * self._speed[way + 1]
        start, end = self._walked[way], self._walked[way + 1]
        # Hermite's cubic, written as the straight way and what leaves it.
        bend = part * rest * (rest * (out - (end - start)) - part * (into - (end - start)))
        return start + part * (end - start) + bend


def _speeds(times: Array, walked: Array, rests: npt.NDArray[np.bool_]) -> Array:
    """The speed (n,) at each knot: a weighted harmonic mean of those on both sides."""
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
