"""A rank that is lost ends the training of all: what is seen of it, and when.

By the ring, its neighbours' next exchange fails with an exception at once. By NCCL and JACCL the
others wait for it without end, and so do neighbours of a rank that is there but does not answer:
`Watch` ends a rank that has waited too long.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Generator, Iterable
from types import TracebackType
from typing import TypeVar

from nerfmac import checks
from nerfmac.ranks.ranks import Ranks

log = logging.getLogger("nerfmac")

Item = TypeVar("Item")

LOST = 3
"""Exit code of a rank that gave up waiting."""

_VARIABLE = "NERFMAC_RANK_TIMEOUT"
_SECONDS = "300"


class LostRankError(RuntimeError):
    """Another rank is gone, so this one cannot go on. The message says what was seen of it."""


def watched(ranks: Ranks, items: Iterable[Item], what_is_left: str) -> Generator[Item]:
    """The `items`, which `ranks` compute together; a `Watch` is on while the next one is computed.

    `what_is_left`: in words, where the last checkpoint is. Raises `LostRankError`.
    """
    with Watch(ranks, what_is_left) as watch:
        try:
            watch.beat()
            for item in items:
                watch.pause()
                yield item
                watch.beat()
        except RuntimeError as error:
            if str(error).startswith(("[ring]", "[jaccl]", "[nccl]")):
                raise LostRankError(f"a rank is lost, as {ranks} sees: {error}") from error
            raise


class Watch:
    """`with Watch(ranks, what) as watch:` ends the process if `beat` is not called for too long.

    That is 300 seconds, or as many as NERFMAC_RANK_TIMEOUT says; 0 waits for ever. Python cannot
    interrupt an exchange, so it is the whole process that ends, with a message and exit code 3.
    """

    def __init__(self, ranks: Ranks, what_is_left: str) -> None:
        """`what_is_left`: in words, where the last checkpoint is. Raises `InputError`."""
        text = os.environ.get(_VARIABLE, _SECONDS)
        seconds = float(text) if text.replace(".", "", 1).isdecimal() else text
        checks.number(_VARIABLE, seconds, low=0.0)  # type: ignore[arg-type]
        self._seconds = float(seconds)
        self._ranks, self._what_is_left = ranks, what_is_left
        self._is_done = threading.Event()
        self._last: float | None = None

    def __enter__(self) -> Watch:
        if self._ranks.size > 1 and self._seconds > 0:
            threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_done.set()

    def beat(self) -> None:
        """Say that training goes on; count from now."""
        self._last = time.monotonic()

    def pause(self) -> None:
        """Count no longer, until the next `beat`."""
        self._last = None

    def _watch(self) -> None:
        while not self._is_done.wait(min(1.0, self._seconds / 4)):
            last = self._last
            if last is not None and time.monotonic() - last > self._seconds:
                message = "%s has waited %g s for the others, so one is lost; %s"
                log.error(message, self._ranks, self._seconds, self._what_is_left)
                logging.shutdown()
                os._exit(LOST)
