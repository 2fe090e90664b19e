"""Timing a computation on the device: warmed up, synchronised, median and quartiles; a bar."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from math import ceil
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np
import numpy.typing as npt
from tqdm.auto import tqdm

QUEUE_SECONDS, QUEUE = 0.02, 16
"""Seconds that queued calls should last, so that starting and waiting cost little; and most calls
in a queue, since the results of all are in memory together."""
LEAST_CALLS = 5
"""Least number of calls: fewer do not show the spread."""


class Timing(NamedTuple):
    """Milliseconds of one call."""

    median: float
    low: float  # lower quartile
    high: float  # upper quartile
    calls: int

    def times(self, factor: float) -> Timing:
        """The timing of `factor` times as much."""
        return Timing(factor * self.median, factor * self.low, factor * self.high, self.calls)

    def less(self, other: Timing) -> Timing:
        """The timing without `other`; at least zero, since both have noise."""
        pairs = zip(self[:3], other[:3], strict=True)
        median, low, high = (max(0.0, own - part) for own, part in pairs)
        return Timing(median, low, high, self.calls)

    def __str__(self) -> str:
        return f"{self.median:.2f} ms ({self.low:.2f} to {self.high:.2f})"


class Bar(tqdm):
    """A progress bar on standard error, erased at its end.

    `with Bar(what, total, unit) as bar: bar.reach(done)`.
    """

    def __init__(self, what: str, total: float, unit: str, *, disable: bool = False) -> None:
        """`total`: seconds, steps or whatever `unit` says; none of them done yet."""
        form = "{desc} |{bar}| {n:.0f}/{total:.0f} {unit}, {remaining} left"
        how: dict[str, Any] = {"miniters": 1, "leave": False, "disable": disable}
        super().__init__(desc=what, total=total, unit=unit, bar_format=form, **how)

    def reach(self, done: float) -> None:
        """Show `done` of the total; more than the total counts as the total."""
        self.update(min(done, self.total) - self.n)


def quartiles(seconds: Sequence[float] | npt.NDArray[np.floating]) -> Timing:
    """The timing of calls that took so many `seconds` each."""
    low, median, high = (1e3 * float(q) for q in np.quantile(seconds, [0.25, 0.5, 0.75]))
    return Timing(median, low, high, len(seconds))


def measure(
    compute: Callable[[], Any], *, seconds: float = 1.0, most: int = 100, queued: bool = False
) -> Timing:
    """Time `compute`, which returns arrays that have not been evaluated.

    It is called twice to warm up, then for about `seconds`, but at least five and at most `most`
    times. With `queued`, several calls are evaluated at a time, and a call's time is their mean.
    That includes little of the cost of starting and waiting for the device.
    """
    queue = queue_of(compute)
    repeats = queue if queued else 1
    spent: list[float] = []
    while len(spent) < LEAST_CALLS or (repeats * sum(spent) < seconds and len(spent) < most):
        spent.append(seconds_a_call(compute, repeats))
    return quartiles(spent)


def queue_of(compute: Callable[[], Any]) -> int:
    """How many calls to evaluate at a time; calls it twice, which warms it up."""
    seconds_a_call(compute, 1)
    once = seconds_a_call(compute, 1)
    return max(1, min(QUEUE, ceil(QUEUE_SECONDS / max(once, 1e-6))))


def measure_interleaved(
    timers: Sequence[Callable[[], float]],
    *,
    seconds: float,
    rounds: int | None = None,
    least: int = LEAST_CALLS,
    what: str | None = "interleaved timing",
) -> list[list[float]]:
    """Interleaved (A/B) timing: call all `timers` in order, again and again.

    A bar says `what` is measured; None: no bar. A timer runs what it times once and returns the
    seconds that this took. After one round to warm up there are at least `least` rounds, and as
    many as fit into about `seconds`, or as many `rounds` as given. The result has, for each timer,
    its seconds in every round. A machine that is slow for a while is so for a whole round:
    differences within a round are more exact than differences of medians.
    """
    for timer in timers:
        timer()
    done: list[list[float]] = []
    begin, passed = time.perf_counter(), 0.0
    total, unit = (seconds, "s") if rounds is None else (float(rounds), "rounds")
    with Bar(what or "", total, unit, disable=what is None) as bar:
        while len(done) < (rounds or least) or (rounds is None and passed < seconds):
            done.append([timer() for timer in timers])
            passed = time.perf_counter() - begin
            bar.reach(passed if rounds is None else len(done))
    return [list(spent) for spent in zip(*done, strict=True)]


def seconds_a_call(compute: Callable[[], Any], repeats: int) -> float:
    """Seconds of each of `repeats` calls, evaluated together."""
    start = time.perf_counter()
    mx.eval([compute() for _ in range(repeats)])
    return (time.perf_counter() - start) / repeats
