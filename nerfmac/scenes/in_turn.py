"""Work on all cores whose results come one after the other, with few of them in memory."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

Result = TypeVar("Result")

SECONDS = 1.5
"""What takes no longer than this shows no bar."""


def in_turn(work: Callable[[int], Result], count: int) -> Iterator[Result]:
    """`work(0)`, `work(1)` and so on to `count`, done by threads, and no more than a few ahead.

    Meant for pictures: Pillow releases the interpreter's lock while it decodes.
    """
    threads = max(min(os.cpu_count() or 1, count), 1)
    with ThreadPoolExecutor(threads) as pool:
        waiting = deque(pool.submit(work, index) for index in range(min(threads + 1, count)))
        for index in range(len(waiting), count + len(waiting)):
            done = waiting.popleft().result()
            if index < count:
                waiting.append(pool.submit(work, index))
            yield done


def shown_late(progress: bool) -> dict[str, Any]:
    """How tqdm shows a bar of what may be short: late, and only in a terminal or a notebook."""
    return {"delay": SECONDS, "leave": False, "disable": None if progress else True}
