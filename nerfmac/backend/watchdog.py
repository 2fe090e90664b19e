"""Surviving macOS's watchdog: it ends GPU work that delays the display (ml-explore/mlx issue 3267).

MLX then raises a `RuntimeError`, and the results of all unfinished launches are lost. `resumed`
waits, asks for shorter launches (`is_relaxed`), and begins again after the last finished item.

Arrays that were being computed when the work ended count as evaluated, but their values are
undefined. So whoever begins again must use arrays that were evaluated before, or new ones.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, TypeVar

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from nerfmac.backend.faults import is_ended_by_macos

log = logging.getLogger("nerfmac")

Item = TypeVar("Item")
Result = TypeVar("Result")

PAUSE = 5.0
"""Seconds to wait before the next attempt."""
RETRIES = 3
"""Largest number of failures in a row after which work begins again."""
SHORTER = 4
"""Factor by which launches are shorter in the relaxed mode."""

_is_relaxed = False  # from the first failure to the end of the process


def is_relaxed() -> bool:
    """Whether the system has ended GPU work of this process.

    Then at most one training step is in flight, and launches are shorter by the factor `SHORTER`.
    """
    return _is_relaxed


def resumed(
    begin: Callable[[int], Iterable[Item]],
    retries: int = RETRIES,
    *,
    on_failure: Callable[[], object] = lambda: None,
) -> Iterator[Item]:
    """Yield the items of `begin(0)`; after the watchdog ended their computation, of `begin(done)`.

    Args:
        begin: Called with the number of items that have been yielded; returns the remaining items.
        retries: Largest number of failures in a row after which `begin` is called again.
        on_failure: Called after each of these failures, before the pause.

    Raises:
        RuntimeError: Another error, or one failure too many.
    """
    done = failures = 0
    while True:
        try:
            for item in begin(done):
                done, failures = done + 1, 0
                yield item
            return
        except RuntimeError as error:
            if failures == retries or not is_ended_by_macos(error):
                raise
            failures += 1
            on_failure()
            _relax(f"{error} Attempt {failures} of {retries} to continue")


def retried(compute: Callable[[], Result], on_failure: Callable[[], object]) -> Result:
    """The result of `compute`, which is called again if the watchdog ends the computation.

    `compute` must evaluate its arrays. `on_failure` is as in `resumed`, which this raises as.
    """
    return next(iter(resumed(lambda _done: (compute() for _ in range(1)), on_failure=on_failure)))


def to_numpy(array: mx.array) -> npt.NDArray[Any]:
    """The values of `array` on the host.

    NumPy reads an MLX array through a C function (MLX's python/src/buffer.h). If the evaluation
    fails within this function, the process ends. So the array is evaluated before, where an error
    is an exception.
    """
    mx.eval(array)
    return np.array(array)


def _relax(why: str) -> None:
    global _is_relaxed
    _is_relaxed = True
    log.warning("macOS ended the GPU's work: %s in %g s, with shorter launches", why, PAUSE)
    time.sleep(PAUSE)
    with suppress(RuntimeError):  # of launches that were in flight
        mx.synchronize()
