"""GPU failures: classification of MLX's error messages, and recovery on macOS.

The messages are from MLX 0.32.4, which includes text of the macOS framework IOGPU or of the CUDA
runtime. If the macOS watchdog stops GPU work because it delayed the display, the results of all
unfinished launches are lost (ml-explore/mlx issue 3267). `resumed` then waits, enables the relaxed
mode with shorter launches (`is_relaxed`), and continues after the last confirmed item.

MLX considers arrays that were being computed to be evaluated, but their values are undefined, and
the memory often contains plausible numbers of an earlier array. The error may be raised by a later
call than the one that waits for the array (ml-explore/mlx pull request 4174), and it is raised only
once, possibly in unrelated code. An array is therefore confirmed only if later launches or
`confirm`, which waits for all launches, have not raised an error. Only confirmed arrays may be
stored or used to continue.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from typing import Any, TypeVar

import mlx.core as mx
import numpy as np
import numpy.typing as npt

log = logging.getLogger("nerfmac")

Item = TypeVar("Item")
Result = TypeVar("Result")

PAUSE = 5.0
"""First pause in seconds after the watchdog has stopped GPU work, before work starts again. Each
further attempt doubles the pause, because macOS rejects submissions for some time."""
RETRIES = 3
"""Maximum number of consecutive attempts to continue after the watchdog has stopped GPU work."""
SHORTER = 4
"""Divisor of the target launch duration in the relaxed mode."""

NO_MEMORY = (
    "[malloc] Unable to allocate ",  # Metal and CUDA
    "[metal::malloc] Attempting to allocate ",  # larger than the maximum buffer size
    "[metal::malloc] Resource limit (",  # too many buffers
    "Insufficient Memory",  # launch on Metal, kIOGPUCommandBufferCallbackErrorOutOfMemory
    " failed: out of memory",  # raised by a CUDA function
)
"""Phrases in MLX errors that indicate a lack of memory."""

ENDED = (
    "Impacting Interactivity",  # the launch delayed the display (ml-explore/mlx issue 3267)
    "Caused GPU Timeout Error",
    "Caused GPU Hang Error",
    "Ignored (for causing prior/excessive GPU errors)",  # follows one of the errors above
    " failed: the launch timed out and was terminated",  # CUDA, on a GPU with a display attached
)
"""Phrases in MLX errors that indicate that the operating system stopped GPU work."""

TOO_MANY_THREADS = "maximum allowed threads per threadgroup"  # in a `ValueError`
DISCARDED = "Discarded (victim of GPU error/recovery)"  # because other GPU work had failed


def is_out_of_memory(error: RuntimeError) -> bool:
    """Return whether MLX raised `error` because of a lack of memory."""
    return any(sign in str(error) for sign in NO_MEMORY)


def is_ended_by_macos(error: RuntimeError) -> bool:
    """Return whether `error` was raised because macOS stopped GPU work. The process can then
    continue.

    For the corresponding error on CUDA, the result is False, because all later CUDA calls would
    fail.
    """
    text = str(error)
    return "[METAL]" in text and any(sign in text for sign in (*ENDED, DISCARDED))


def in_words(error: RuntimeError | ValueError) -> str | None:
    """Return an explanation of an MLX error, with advice, or None if the error is unknown."""
    if isinstance(error, ValueError):
        if TOO_MANY_THREADS not in str(error):
            return None
        return (
            "a kernel needs more registers than this GPU has for a threadgroup of that size: "
            f"{error}; launch a custom kernel with a smaller `group`, or report the error if you "
            "do not use one"
        )
    if is_out_of_memory(error):
        return f"no memory is left: {error}"
    if any(sign in str(error) for sign in ENDED):
        return (
            f"the system stopped GPU work that delayed the display: {error}; "
            "try again with `--preset small`, over ssh, or with the "
            "environment variable AGX_RELAX_CDM_CTXSTORE_TIMEOUT=1"
        )
    if DISCARDED in str(error):
        return (
            "macOS discarded GPU work because earlier work failed, possibly of another program: "
            f"{error}; try again"
        )
    return None


_is_relaxed = False  # from the first failure to the end of the process
_failures = 0  # number of times that macOS has stopped GPU work of this process


def is_relaxed() -> bool:
    """Return whether this process uses the relaxed mode, because macOS has stopped GPU work of the
    process.

    In the relaxed mode, at most one training step is in flight, and the target duration of launches
    is divided by `SHORTER`.
    """
    return _is_relaxed


def resumed(
    begin: Callable[[int], Iterable[Item]],
    retries: int = RETRIES,
    *,
    on_failure: Callable[[], object] = lambda: None,
) -> Generator[Item]:
    """Yield confirmed items, and continue after the last of them if the watchdog stops GPU work.

    `begin` returns the items that remain, given the number of items already yielded. An item is
    yielded after the next item has been computed, and the last item after `confirm`. At most
    `retries` consecutive attempts to continue are made. Before each of them, there is a pause, and
    `on_failure` is called, which should not use the device, because macOS may still reject
    submissions. Other errors are raised. If the watchdog has stopped other GPU work since an item
    was yielded, the items in progress are also lost, so `begin` is called again.
    """
    done = failures = 0
    while True:
        known, waiting = _failures, deque[Item]()
        try:
            for item in begin(done):
                waiting.append(item)
                if len(waiting) > 1:
                    done, failures = done + 1, 0
                    yield waiting.popleft()
                    if _failures != known and retries:
                        break
            else:
                confirm()
                yield from waiting
                return
        except RuntimeError as error:
            note(error)
            if retries:  # Otherwise, launches in flight may wait for another process.
                with suppress(RuntimeError):  # of other launches in flight
                    confirm()
            if failures == retries or not is_ended_by_macos(error):
                raise
            failures += 1
            pause = PAUSE * 2 ** (failures - 1)
            _relax(f"{error} Attempt {failures} of {retries} to continue", pause)
            on_failure()


def confirm() -> None:
    """Wait for all launches of this thread. If the GPU has failed, raise the error that MLX has not
    raised yet."""
    mx.synchronize()


def note(error: BaseException) -> None:
    """Record that other code has caught `error`, so that `resumed` discards items in progress if
    the watchdog has stopped GPU work."""
    global _failures
    if isinstance(error, RuntimeError) and is_ended_by_macos(error):
        _failures += 1


def retried(compute: Callable[[], Result], on_failure: Callable[[], object]) -> Result:
    """Return the result of `compute`, and call it again if the watchdog stops the computation.

    `compute` must evaluate its result. `on_failure` and the raised errors are as in `resumed`.
    """
    return next(iter(resumed(lambda _done: (compute() for _ in range(1)), on_failure=on_failure)))


def to_numpy(array: mx.array) -> npt.NDArray[Any]:
    """Convert an MLX array to a NumPy array.

    NumPy reads an MLX array through a C function, where a failed evaluation ends the process or
    results in zeros. The array is therefore evaluated beforehand, so that a failure raises an
    exception. However, the array is not yet confirmed; see `confirm`.
    """
    mx.eval(array)
    return np.array(array)


def _relax(why: str, pause: float) -> None:
    global _is_relaxed
    _is_relaxed = True
    log.warning("macOS stopped GPU work: %s in %g s, with shorter launches", why, pause)
    time.sleep(pause)
