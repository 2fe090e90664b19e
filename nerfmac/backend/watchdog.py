"""Recovery after the macOS watchdog has stopped GPU work because it delayed the display.

If the watchdog stops GPU work, MLX raises a `RuntimeError`, and the results of all unfinished
launches are lost (ml-explore/mlx issue 3267). The function `resumed` then waits, enables the
relaxed mode with shorter launches (`is_relaxed`), and continues after the last finished item.

MLX considers arrays that were being computed at that moment to be evaluated, but their values are
undefined. The caller must continue from arrays that had been evaluated earlier, or from new arrays.
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
"""Pause in seconds after the watchdog has stopped GPU work, before work starts again."""
RETRIES = 3
"""Maximum number of consecutive attempts to continue after the watchdog has stopped GPU work."""
SHORTER = 4
"""Divisor of the target launch duration in the relaxed mode."""

_is_relaxed = False  # from the first failure to the end of the process


def is_relaxed() -> bool:
    """Return whether macOS has stopped GPU work of this process.

    If the result is True, the process is in the relaxed mode: at most one training step is in
    flight, and the target duration of launches is divided by `SHORTER`.
    """
    return _is_relaxed


def resumed(
    begin: Callable[[int], Iterable[Item]],
    retries: int = RETRIES,
    *,
    on_failure: Callable[[], object] = lambda: None,
) -> Iterator[Item]:
    """Yield items, and continue after the last finished item if the watchdog stops GPU work.

    Args:
        begin: Function that returns the remaining items, given the number of items that have
            already been yielded. It is called with 0 first.
        retries: Maximum number of consecutive attempts to continue.
        on_failure: Callback after each failure, before the pause.

    Raises:
        RuntimeError: If MLX raises an error for another reason, or if all `retries` fail.
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
    """Return the result of `compute`, and call it again if the watchdog stops the computation.

    Args:
        compute: Function that computes and evaluates its result.
        on_failure: Callback as in `resumed`.

    Raises:
        RuntimeError: Under the same conditions as `resumed`.
    """
    return next(iter(resumed(lambda _done: (compute() for _ in range(1)), on_failure=on_failure)))


def to_numpy(array: mx.array) -> npt.NDArray[Any]:
    """Convert an MLX array to a NumPy array.

    NumPy reads an MLX array through a C function (MLX's python/src/buffer.h). If the evaluation
    fails inside this C function, the process ends. The array is therefore evaluated beforehand, so
    that a failure raises an exception.
    """
    mx.eval(array)
    return np.array(array)


def _relax(why: str) -> None:
    global _is_relaxed
    _is_relaxed = True
    log.warning("macOS stopped GPU work: %s in %g s, with shorter launches", why, PAUSE)
    time.sleep(PAUSE)
    with suppress(RuntimeError):  # of launches that were in flight
        mx.synchronize()
