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

QUEUE_SECONDS = 0.02  # Target duration of a queue, a group of calls evaluated together.
QUEUE = 16  # Maximum number of calls in a queue. Memory holds the results of all calls.
LEAST_CALLS, MOST_CALLS = 5, 100  # Limits of the number of timed calls or queues.


class Timing(NamedTuple):
    """Median and quartiles of the time of one call, in milliseconds."""

    median: float
    low: float  # lower quartile
    high: float  # upper quartile
    calls: int  # number of timed calls or queues

    def times(self, factor: float) -> Timing:
        """Return the timing multiplied by `factor`."""
        return Timing(factor * self.median, factor * self.low, factor * self.high, self.calls)

    def less(self, other: Timing) -> Timing:
        """Subtract the median of `other`. Differences that are negative because of noise become
        zero."""
        median, low, high = (max(0.0, own - other.median) for own in self[:3])
        return Timing(median, low, high, self.calls)

    def __str__(self) -> str:
        return f"{self.median:.2f} ms ({self.low:.2f} to {self.high:.2f})"


class Bar(tqdm):
    """Progress bar on standard error. At the end, the bar is erased.

    Use it as a context manager: `with Bar("training", 8, "steps") as bar: bar.reach(3)`.
    """

    def __init__(self, what: str, total: float, unit: str, *, disable: bool = False) -> None:
        """Show an empty progress bar for a `total` in a `unit`, such as "steps" or "s"."""
        form = "{desc} |{bar}| {n:.0f}/{total:.0f} {unit}, {remaining} left"
        options: dict[str, Any] = {"miniters": 1, "leave": False, "disable": disable}
        super().__init__(desc=what, total=total, unit=unit, bar_format=form, **options)

    def reach(self, done: float) -> None:
        """Move the bar to `done`, in the unit of the total. Values above the total fill the bar."""
        self.update(min(done, self.total) - self.n)


def quartiles(seconds: Sequence[float] | npt.NDArray[np.floating]) -> Timing:
    """Return the quartiles of call times that are given in seconds."""
    low, median, high = (1e3 * float(q) for q in np.quantile(seconds, [0.25, 0.5, 0.75]))
    return Timing(median, low, high, len(seconds))


def measure(compute: Callable[[], Any], *, seconds: float = 1.0, queued: bool = False) -> Timing:
    """Time a function that returns unevaluated arrays, for about `seconds`.

    The two first calls are not counted. The arrays are evaluated in each call, or in a queue of
    calls (see `timer`).
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
    """Return a function that calls `compute`, evaluates the arrays, and returns the time per call
    in seconds.

    `compute` is called twice for the warm-up. With `queued`, several calls are evaluated together,
    so that the mean time of a call includes little overhead for starting and synchronizing.
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
    what: str = "interleaved timing",
) -> list[list[float]]:
    """Time several functions in rounds. In each round, all functions are called once, in order.

    If other programs slow down the machine, they usually slow down a whole round. Therefore, ratios
    of times in the same round are more accurate than ratios of medians. The first round is a
    warm-up and is not counted.

    Args:
        timers: Functions that return the time of one call in seconds, such as results of `timer`.
        seconds: Approximate total time.
        rounds: Number of rounds, instead of `seconds`.
        least: Minimum number of rounds if `rounds` is None.
        what: Label of the progress bar.

    Returns:
        The times of all rounds in seconds, for each timer.
    """
    for call in timers:
        call()
    done: list[list[float]] = []
    begin, passed = time.perf_counter(), 0.0
    total, unit = (seconds, "s") if rounds is None else (float(rounds), "rounds")
    with Bar(what, total, unit) as bar:
        while len(done) < (rounds or least) or (rounds is None and passed < seconds):
            done.append([call() for call in timers])
            passed = time.perf_counter() - begin
            bar.reach(passed if rounds is None else len(done))
    return [list(spent) for spent in zip(*done, strict=True)]
