"""Timing of device computations after a warm-up, with median, quartiles, and a progress bar."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from math import ceil
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np
import numpy.typing as npt
from tqdm.auto import tqdm

QUEUE_SECONDS = 0.02
"""Target duration in seconds of a queue of calls, which are evaluated together. It is long compared
with the overhead of starting and synchronizing."""
QUEUE = 16
"""Maximum number of calls in a queue. All their results are in memory at the same time."""
LEAST_CALLS, MOST_CALLS = 5, 100
"""Minimum and maximum number of timed calls or queues. With fewer than five, the spread is
unknown."""


class Timing(NamedTuple):
    """Time of one call in milliseconds."""

    median: float
    low: float  # lower quartile
    high: float  # upper quartile
    calls: int

    def times(self, factor: float) -> Timing:
        """Return the timing multiplied by `factor`."""
        return Timing(factor * self.median, factor * self.low, factor * self.high, self.calls)

    def less(self, other: Timing) -> Timing:
        """Return the timing minus the median of `other`. The result is at least zero, because both
        have noise."""
        median, low, high = (max(0.0, own - other.median) for own in self[:3])
        return Timing(median, low, high, self.calls)

    def __str__(self) -> str:
        return f"{self.median:.2f} ms ({self.low:.2f} to {self.high:.2f})"


class Bar(tqdm):
    """Progress bar on standard error, which is erased at the end.

    `with Bar("training", 8, "steps") as bar: bar.reach(3)`.
    """

    def __init__(self, what: str, total: float, unit: str, *, disable: bool = False) -> None:
        """Show an empty bar. `total` is the number of steps or seconds, and `unit` is their
        unit."""
        form = "{desc} |{bar}| {n:.0f}/{total:.0f} {unit}, {remaining} left"
        options: dict[str, Any] = {"miniters": 1, "leave": False, "disable": disable}
        super().__init__(desc=what, total=total, unit=unit, bar_format=form, **options)

    def reach(self, done: float) -> None:
        """Show that `done` of the total is finished. Values larger than the total fill the bar."""
        self.update(min(done, self.total) - self.n)


def quartiles(seconds: Sequence[float] | npt.NDArray[np.floating]) -> Timing:
    """Return the median and the quartiles of the call times `seconds`."""
    low, median, high = (1e3 * float(q) for q in np.quantile(seconds, [0.25, 0.5, 0.75]))
    return Timing(median, low, high, len(seconds))


def measure(compute: Callable[[], Any], *, seconds: float = 1.0, queued: bool = False) -> Timing:
    """Time `compute` for about `seconds`, after a warm-up.

    Args:
        compute: Function that returns unevaluated arrays.
        seconds: Approximate total time.
        queued: Whether to time queues of calls (see `timer`) instead of single calls.

    Returns:
        Times of `LEAST_CALLS` to `MOST_CALLS` calls or queues.
    """
    call = timer(compute, queued=queued)
    spent: list[float] = []
    start = time.perf_counter()
    while len(spent) < LEAST_CALLS or (
        time.perf_counter() - start < seconds and len(spent) < MOST_CALLS
    ):
        spent.append(call())
    return quartiles(spent)


def timer(compute: Callable[[], Any], *, queued: bool) -> Callable[[], float]:
    """Return a function that calls `compute`, evaluates the result, and returns the time per call.

    If `queued` is True, the function evaluates several calls together and returns their mean time
    in seconds, which includes little overhead for starting and synchronizing. To warm up, `timer`
    calls `compute` twice.
    """

    def run(calls: int) -> float:
        start = time.perf_counter()
        mx.eval([compute() for _ in range(calls)])
        return (time.perf_counter() - start) / calls

    run(1)
    fitting = min(QUEUE, ceil(QUEUE_SECONDS / max(run(1), 1e-6)))
    return lambda: run(fitting if queued else 1)


def measure_interleaved(
    timers: Sequence[Callable[[], float]],
    *,
    seconds: float,
    rounds: int | None = None,
    least: int = LEAST_CALLS,
    what: str | None = "interleaved timing",
) -> list[list[float]]:
    """Time several functions interleaved (A/B), by calling all `timers` in order in each round.

    A busy machine is slow for a whole round, so ratios within a round are more accurate than ratios
    of medians. The first round is a warm-up and is not counted.

    Args:
        timers: Functions that return the time of one call in seconds, such as the results of
            `timer`.
        seconds: Approximate total time.
        rounds: Number of rounds, instead of `seconds`.
        least: Minimum number of rounds if `rounds` is None.
        what: Label of the progress bar, or None to show no bar.

    Returns:
        Times in seconds in every round, for each timer.
    """
    for call in timers:
        call()
    done: list[list[float]] = []
    begin, passed = time.perf_counter(), 0.0
    total, unit = (seconds, "s") if rounds is None else (float(rounds), "rounds")
    with Bar(what or "", total, unit, disable=what is None) as bar:
        while len(done) < (rounds or least) or (rounds is None and passed < seconds):
            done.append([call() for call in timers])
            passed = time.perf_counter() - begin
            bar.reach(passed if rounds is None else len(done))
    return [list(spent) for spent in zip(*done, strict=True)]
