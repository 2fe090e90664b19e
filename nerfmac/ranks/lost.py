"""Detection of lost ranks, so that training stops on all ranks if one rank ends.

If a rank ends between two collective operations, its neighbors may wait forever (MLX 0.32.4). With
NCCL and JACCL, the other ranks always wait. A `Watch` therefore ends a process that has waited too
long, or that receives a termination signal while it waits. `mlx.launch` sends this signal when
another rank has ended.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from nerfmac.common import checks
from nerfmac.ranks.ranks import Ranks

log = logging.getLogger("nerfmac")

Item = TypeVar("Item")

LOST = 2  # Exit code of a rank that stops waiting for others, as for an `InputError`.

GRACE = 10.0
"""Grace period in seconds after a termination signal. The process ends if the rank still waits
after this time, or if saving its state takes longer."""

_VARIABLE = "NERFMAC_RANK_TIMEOUT"
_SECONDS = "120"


class LostRankError(RuntimeError):
    """Error that is raised if a rank cannot continue because another rank has ended."""


def watched(ranks: Ranks, items: Iterable[Item], save: Callable[[], str]) -> Generator[Item]:
    """Yield items that the ranks compute together, and enforce a time limit for each item.

    The caller's time between two items does not count toward the limit. `save` is called to save
    the state if another rank is lost, as in `Watch`.
    """
    with Watch(ranks, save) as watch, noticed(ranks):
        watch.beat()
        for item in items:
            watch.pause()
            yield item
            watch.beat()


@contextmanager
def noticed(ranks: Ranks) -> Iterator[None]:
    """Return a context manager that converts MLX errors in collective operations to
    `LostRankError`s."""
    try:
        yield
    except RuntimeError as error:
        if str(error).startswith(("[ring]", "[jaccl]", "[nccl]")):
            raise LostRankError(
                f"another rank has failed, as detected by {ranks}: {error}"
            ) from error
        raise


class Watch:
    """Context manager that ends the process if `beat` is not called within a time limit.

    The environment variable NERFMAC_RANK_TIMEOUT sets the limit in seconds. The default is 120, and
    0 disables the limit. Python cannot interrupt a collective operation, so the whole process ends
    with a message and exit code 2. If there is only one rank, there is no limit.
    """

    def __init__(self, ranks: Ranks, save: Callable[[], str]) -> None:
        """Create a watch. The time limit begins with the first call of `beat`.

        `save` is a function that saves the state and returns a sentence with the location of the
        saved state. `save` is called on another thread, so it may use only evaluated arrays.
        """
        text = os.environ.get(_VARIABLE, _SECONDS)
        seconds = float(text) if text.replace(".", "", 1).isdecimal() else text
        checks.number(_VARIABLE, seconds, low=0.0)  # type: ignore[arg-type]
        self._seconds = float(seconds)
        self._ranks, self._save = ranks, save
        self._last: float | None = None
        self._signals, self._told = socket.socketpair()
        self._before: int | None = None

    def __enter__(self) -> Watch:
        if self._ranks.size > 1:
            self._told.setblocking(False)
            # Python runs signal handlers on the main thread, but that thread may be waiting in a
            # collective operation.
            if threading.current_thread() is threading.main_thread():
                self._before = signal.set_wakeup_fd(self._told.fileno(), warn_on_full_buffer=False)
            threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.set_wakeup_fd(self._before)
        self._told.close()  # ends the watching thread
        if self._ranks.size == 1:
            self._signals.close()

    def beat(self) -> None:
        """Restart the time limit. Call this method whenever training has made progress."""
        self._last = time.monotonic()

    def pause(self) -> None:
        """Suspend the time limit until the next call of `beat`."""
        self._last = None

    def _watch(self) -> None:
        end = None
        with self._signals:
            while True:
                if select.select([self._signals], [], [], 1.0)[0]:
                    if not self._signals.recv(64):
                        return
                    end = end or time.monotonic() + GRACE
                last, now = self._last, time.monotonic()
                if end is not None and now > end and last is not None:
                    self._give_up("it received a signal to end while it waited for other ranks")
                if last is not None and 0 < self._seconds < now - last:
                    self._give_up(f"the other ranks have not answered for {self._seconds:g} s")

    def _give_up(self, why: str) -> None:
        threading.Timer(GRACE, os._exit, [LOST]).start()  # if saving hangs
        left = "the last checkpoint is unchanged"
        with suppress(Exception):
            left = self._save()
        log.error("another rank has failed, as detected by %s: %s; %s", self._ranks, why, left)
        logging.shutdown()
        os._exit(LOST)
