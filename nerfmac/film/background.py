"""Work on a thread of its own, so that encoding and rendering do not wait for each other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Queue
from typing import TypeVar

from nerfmac.common.timeline import interval

Item = TypeVar("Item")

WAITING = 4
"""Most items that wait for the thread: then the giver waits, so memory stays bounded."""


@contextmanager
def in_background(work: Callable[[Item], None]) -> Iterator[Callable[[Item], None]]:
    """Within it, what is given to the function it gives is worked on, in order, on a thread.

    Leaving it, also by an error or Ctrl-C, waits for all of it. An error in `work` is raised where
    the next item is given, or on leaving; what follows is dropped.
    """
    waiting: Queue[Item | None] = Queue(WAITING)
    failed: list[BaseException] = []

    def run() -> None:
        while (item := waiting.get()) is not None:
            if failed:
                continue  # the giver may wait for room: take all that comes
            try:
                with interval("encode"):
                    work(item)
            except BaseException as error:
                failed.append(error)

    def give(item: Item) -> None:
        if failed:
            raise failed[0]
        with interval("wait for the encoder"):
            waiting.put(item)

    thread = threading.Thread(target=run, name="nerfmac encoder", daemon=True)
    thread.start()
    try:
        yield give
    finally:
        waiting.put(None)
        thread.join()
    if failed:
        raise failed[0]
