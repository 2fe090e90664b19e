"""A rank that is lost ends the training of all: what is seen of it, and when.

By the ring, a neighbour's next exchange mostly fails with an exception, at once; if it was between
two exchanges it may also wait without end (MLX 0.32.4). By NCCL and JACCL the others always wait,
and so they do for a rank that is there but does not answer. So a `Watch` ends a rank that has
waited too long, or that was told to end while it waits, as `mlx.launch` does when another has.
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
"""Exit code of a rank that gave up waiting: that of all that cannot be done."""

GRACE = 10.0
"""Seconds in which a rank that was told to end must, and in which it must have saved its state."""

_VARIABLE = "NERFMAC_RANK_TIMEOUT"
_SECONDS = "120"


class LostRankError(RuntimeError):
    """Another rank is gone, so this one cannot go on. The message says what was seen of it."""


def watched(ranks: Ranks, items: Iterable[Item], save: Callable[[], str]) -> Generator[Item]:
    """The `items`, which `ranks` compute together; a `Watch` is on while the next one is computed.

    `save` is the `Watch`'s. Raises `LostRankError`.
    """
    with Watch(ranks, save) as watch, noticed(ranks):
        watch.beat()
        for item in items:
            watch.pause()
            yield item
            watch.beat()


@contextmanager
def noticed(ranks: Ranks) -> Iterator[None]:
    """Within it, what MLX raises at an exchange with a lost rank is raised as `LostRankError`."""
    try:
        yield
    except RuntimeError as error:
        if str(error).startswith(("[ring]", "[jaccl]", "[nccl]")):
            raise LostRankError(f"a rank is lost, as {ranks} sees: {error}") from error
        raise


class Watch:
    """`with Watch(ranks, save) as watch:` ends the process if `beat` is not called for too long.

    That is 120 seconds, or as many as NERFMAC_RANK_TIMEOUT says; 0 waits for ever. Python cannot
    interrupt an exchange, so it is the whole process that ends, with a message and exit code 2.
    """

    def __init__(self, ranks: Ranks, save: Callable[[], str]) -> None:
        """`save` saves what can be saved, on another thread, and says where. Raises `InputError`.

        It may use evaluated arrays only.
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
            # Python's own handlers wait for the main thread, which may be in an exchange.
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
        """Say that training goes on; count from now."""
        self._last = time.monotonic()

    def pause(self) -> None:
        """Count no longer, until the next `beat`."""
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
        threading.Timer(GRACE, os._exit, [LOST]).start()  # should there be no saving it
        left = "its last checkpoint stays"
        with suppress(Exception):
            left = self._save()
        log.error("a rank is lost, as %s sees: %s; %s", self._ranks, why, left)
        logging.shutdown()
        os._exit(LOST)
