"""Timing a computation on the device: warm-up, synchronised, median and spread."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np


class Timing(NamedTuple):
    """Milliseconds of one call."""

    median: float
    low: float  # a quarter of the calls took less
    high: float  # a quarter took more
    calls: int


def measure(compute: Callable[[], Any], *, seconds: float = 1.0, most: int = 100) -> Timing:
    """Time `compute`, which returns arrays that have not been evaluated.

    It is called twice to warm up, then at least five times and for about `seconds`.
    """
    for _ in range(2):
        mx.eval(compute())
    spent: list[float] = []
    while len(spent) < 5 or (sum(spent) < seconds and len(spent) < most):
        start = time.perf_counter()
        mx.eval(compute())
        spent.append(time.perf_counter() - start)
    low, median, high = (1e3 * float(q) for q in np.quantile(spent, [0.25, 0.5, 0.75]))
    return Timing(median, low, high, len(spent))
