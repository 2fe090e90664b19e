"""Detection of lost ranks: if one rank ends, training ends on all ranks.

With the ring backend, the next exchange of the neighboring ranks usually raises an exception at
once. If the rank ended between two exchanges, they may wait forever (MLX 0.32.4). With NCCL and
JACCL, the other ranks always wait, and they also wait for a rank that hangs. A `Watch` therefore
ends a process that has waited too long, or that receives a termination signal while it waits.
`mlx.launch` sends this signal when another rank has ended.
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
from types import TracebackType
from typing import TypeVar

from nerfmac.common import checks
from nerfmac.ranks.ranks import Ranks

log = logging.getLogger("nerfmac")

Item = TypeVar("Item")

LOST = 2
"""Exit code of a rank that gave up waiting, the same as for a request that cannot be met."""

GRACE = 10.0
"""Seconds after a signal until a rank that waits is ended; also the seconds it may take to save."""

_VARIABLE = "NERFMAC_RANK_TIMEOUT"
_SECONDS = "120"


class LostRankError(RuntimeError):
    """Another rank has ended, so this rank cannot continue. The message contains the symptom."""


def watched(ranks: Ranks, items: Iterable[Item], save: Callable[[], str]) -> Generator[Item]:
    """Yield the `items` that the `ranks` compute together, and watch each computation.

    `save` is as in `Watch`. Raises `LostRankError`.
    """
    with Watch(ranks, save) as watch, noticed(ranks):
        watch.beat()
        for item in items:
            watch.pause()
            yield item
            watch.beat()


@contextmanager
def noticed(ranks: Ranks) -> Iterator[None]:
    """Context manager that raises MLX's errors of an exchange as `LostRankError`."""
    try:
        yield
    except RuntimeError as error:
        if str(error).startswith(("[ring]", "[jaccl]", "[nccl]")):
            raise LostRankError(f"a rank is lost, as {ranks} sees: {error}") from error
        raise


class Watch:
    """`with Watch(ranks, save) as watch:` ends the process if `beat` is not called in time.

    The limit is 120 seconds, or NERFMAC_RANK_TIMEOUT seconds; 0 waits for ever. Python cannot
    interrupt an exchange, so the whole process ends, with a message and exit code 2. A single rank
    is not watched.
    """

    def __init__(self, ranks: Ranks, save: Callable[[], str]) -> None:
        """Create a watch.

        Args:
            ranks: Ranks that compute together.
            save: Function that saves the state and returns a sentence with the location. It is
                called on another thread and may only use evaluated arrays.

        Raises:
            InputError: If NERFMAC_RANK_TIMEOUT is invalid.
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
            # Handlers in Python wait for the main thread, but it may be in an exchange.
            if threading.current_thread() is threading.main_thread():
                self._before = signal.set_wakeup_fd(self._told.fileno(), warn_on_full_buffer=False)
            threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._before is not None:
            signal.set_wakeup_fd(self._before)
        self._told.close()  # which ends the thread
        if self._ranks.size == 1:
            self._signals.close()

    def beat(self) -> None:
        """Restart the time limit, because training has progressed."""
        self._last = time.monotonic()

    def pause(self) -> None:
        """Stop the time limit until the next `beat`."""
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
                    self._give_up("it was told to end, and waits for the others")
                if last is not None and 0 < self._seconds < now - last:
                    self._give_up(f"the others have not answered for {self._seconds:g} s")

    def _give_up(self, why: str) -> None:
        threading.Timer(GRACE, os._exit, [LOST]).start()  # in case saving hangs
        left = "its last checkpoint stays"
        with suppress(Exception):
            left = self._save()
        log.error("a rank is lost, as %s sees: %s; %s", self._ranks, why, left)
        logging.shutdown()
        os._exit(LOST)
