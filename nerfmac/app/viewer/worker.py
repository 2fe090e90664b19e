"""`Worker`, the thread of a process that owns all MLX objects of the viewers.

If two threads use one model, the process crashes. Lazy arrays, streams, random state, and compiled
functions of MLX belong to one thread. Therefore, the worker thread executes all training and
rendering, in slices. Other threads may change Python objects that contain no MLX arrays, wake an
activity, or submit a task that returns no lazy arrays.
"""

import atexit
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import cache, partial
from typing import Protocol, TypeVar

import mlx.core as mx

from nerfmac.backend.watchdog import note
from nerfmac.common import interval, log

T = TypeVar("T")


MAX_WAIT = 3600.0
"""Maximum time in seconds that the worker thread waits if no activity is due, because
`threading.Condition.wait` rejects an infinite timeout."""


class Activity(Protocol):
    """Long task that is executed in slices."""

    def work(self) -> float | None:
        """Execute one slice. Return the time in seconds until the next slice is due, or None if the
        activity waits until `Worker.wake` is called."""
        ...


class Worker:
    """Thread that runs tasks in the order of submission, and slices of activities between tasks."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._tasks: deque[Callable[[], None]] = deque()
        self._due: dict[Activity, float] = {}
        self._is_ending = False
        self._thread = threading.Thread(target=self._run, name="nerfmac", daemon=True)
        self._thread.start()

    def submit(self, task: Callable[[], T]) -> Future[T]:
        """Queue a task and return the future of its result. The worker thread runs it at once."""
        future: Future[T] = Future()
        if threading.current_thread() is self._thread:
            _fulfil(future, task)
            return future
        with self._lock:
            if self._is_ending:
                raise RuntimeError("the worker has ended")
            self._tasks.append(lambda: _fulfil(future, task))
            self._lock.notify()
        return future

    def add(self, activity: Activity) -> None:
        """Add an activity, and make its first slice due immediately."""
        self.wake(activity, is_new=True)

    def remove(self, activity: Activity, last: Callable[[], None]) -> None:
        """Stop an activity, and wait until `last` has run on the worker thread, unless it ended."""
        with self._lock:
            self._due.pop(activity, None)
            if self._is_ending:
                return
        self.submit(last).result()

    def wake(self, activity: Activity, *, is_new: bool = False) -> None:
        """Make the next slice of an activity due immediately. Any thread may call this method."""
        with self._lock:
            if is_new or activity in self._due:
                self._due[activity] = 0.0
                self._lock.notify()

    def end(self) -> None:
        """End the worker thread after its current tasks and slices, within 10 seconds."""
        with self._lock:
            self._is_ending = True
            self._lock.notify()
        self._thread.join(timeout=10.0)

    def _run(self) -> None:
        while (next_up := self._wait()) is not None:
            for item in next_up:
                item()
        mx.clear_streams()  # If streams outlive their thread, MLX aborts the process.

    def _wait(self) -> list[Callable[[], None]] | None:
        """Wait for tasks or due activities. Return all waiting tasks and one slice of each due
        activity, or None after a call of `end`."""
        with self._lock:
            while not self._is_ending:
                tasks = list(self._tasks)
                self._tasks.clear()
                now = time.monotonic()
                due = [activity for activity, when in self._due.items() if when <= now]
                if tasks or due:
                    return [*tasks, *(partial(self._work, activity) for activity in due)]
                self._lock.wait(min([*self._due.values(), now + MAX_WAIT]) - now)
            return None

    def _work(self, activity: Activity) -> None:
        with self._lock:
            if activity not in self._due:
                return
            self._due[activity] = float("inf")  # A call of `wake` from now on makes it due again.
        try:
            with interval("viewer", work=type(activity).__name__):
                pause = activity.work()
        except Exception:
            log.exception("stopping %s", activity)  # The other activities are not affected.
            with self._lock:
                self._due.pop(activity, None)
            return
        with self._lock:
            if pause is not None and activity in self._due:
                self._due[activity] = min(self._due[activity], time.monotonic() + pause)


def _fulfil(future: Future[T], task: Callable[[], T]) -> None:
    if future.set_running_or_notify_cancel():
        try:
            future.set_result(task())
        except BaseException as error:  # `Future.result` raises this exception again.
            note(error)
            future.set_exception(error)


@cache
def the_worker() -> Worker:
    """Return the worker of the process. The first call creates it."""
    worker = Worker()
    # If the thread still computed during interpreter shutdown, the process would crash.
    atexit.register(worker.end)
    return worker
