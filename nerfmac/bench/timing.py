"""Timing a computation on the device: warm-up, synchronised, median and spread."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from math import ceil
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np

from nerfmac.bench.progress import Bar

QUEUE_SECONDS = 0.02
"""What is queued at a time lasts about so long: a launch's own cost is far below it."""

QUEUE = 16
"""Most calls queued at a time; the results of all are in memory together."""


class Timing(NamedTuple):
    """Milliseconds of one call."""

    median: float
    low: float  # a quarter of the calls took less
    high: float  # a quarter took more
    calls: int

    def times(self, factor: float) -> Timing:
        """The timing of `factor` times as much."""
        return Timing(factor * self.median, factor * self.low, factor * self.high, self.calls)


def quartiles(seconds: Sequence[float]) -> Timing:
    """The timing that single calls' seconds make."""
    low, median, high = (1e3 * float(q) for q in np.quantile(seconds, [0.25, 0.5, 0.75]))
    return Timing(median, low, high, len(seconds))


def measure(
    compute: Callable[[], Any], *, seconds: float = 1.0, most: int = 100, queued: bool = False
) -> Timing:
    """Time `compute`, which returns arrays that have not been evaluated.

    It is called twice to warm up, then at least five times and for about `seconds`. `queued` calls
    are evaluated several at a time and share what it costs to start and to wait for the device.
    """
    _spent(compute, 1)
    once = _spent(compute, 1)
    repeats = max(1, min(QUEUE, ceil(QUEUE_SECONDS / max(once, 1e-6)))) if queued else 1
    spent: list[float] = []
    while len(spent) < 5 or (repeats * sum(spent) < seconds and len(spent) < most):
        spent.append(_spent(compute, repeats))
    return quartiles(spent)


def measure_in_turns(clocks: Sequence[Callable[[], float]], *, seconds: float) -> list[list[float]]:
    """Let each of `clocks` tell its seconds, turn after turn for about `seconds` in all.

    Each is called once to warm up, then at least five times. What slows the machine for a while
    slows all of a turn, and differences within one turn tell more than those of medians.
    """
    for clock in clocks:
        clock()
    turns: list[list[float]] = []
    begin, passed = time.perf_counter(), 0.0
    with Bar("in turns", seconds, "s") as bar:
        while len(turns) < 5 or passed < seconds:
            turns.append([clock() for clock in clocks])
            passed = time.perf_counter() - begin
            bar.reach(passed)
    return [list(spent) for spent in zip(*turns, strict=True)]


def _spent(compute: Callable[[], Any], repeats: int) -> float:
    """Seconds of a call, of so many queued."""
    start = time.perf_counter()
    mx.eval([compute() for _ in range(repeats)])
    return (time.perf_counter() - start) / repeats
