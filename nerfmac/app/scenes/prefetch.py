"""Parallel computation in threads on all cores, with ordered results and bounded memory."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")


def prefetch(work: Callable[[int], Result], count: int) -> Iterator[Result]:
    """Yield `work(0)` to `work(count - 1)`, computed in background threads, at most a few items
    ahead of the caller.

    The function is intended for reading images, because Pillow releases the GIL while decoding.
    """
    threads = max(min(os.cpu_count() or 1, count), 1)
    with ThreadPoolExecutor(threads) as pool:
        waiting = deque(pool.submit(work, index) for index in range(min(threads + 1, count)))
        for index in range(len(waiting), count + len(waiting)):
            result = waiting.popleft().result()
            if index < count:
                waiting.append(pool.submit(work, index))
            yield result
