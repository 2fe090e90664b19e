"""`Worker`, the thread of a process that owns all MLX objects of the viewers.

If two threads use one model, the process crashes. Lazy arrays, streams, random state, and compiled
functions of MLX belong to one thread. Therefore, the worker thread executes all training and
rendering, in slices. Other threads may change Python objects that contain no MLX arrays, wake an
activity, or submit a task that returns no lazy arrays.
"""

import asyncio
import atexit
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from contextvars import Context
from functools import cache
from typing import Any, Protocol, TypeVar

import mlx.core as mx

from nerfmac.backend.watchdog import note
from nerfmac.common import interval, log

T = TypeVar("T")


class Activity(Protocol):
    """Long task that is executed in slices."""

    def work(self) -> float | None:
        """Execute one slice. Return the time in seconds until the next slice is due, or None if the
        activity waits until `Worker.wake` is called."""
        ...


class Worker:
    """Thread with an event loop, which runs tasks in the order of submission, and slices of
    activities between tasks."""

    def __init__(self) -> None:
        self._due: dict[Activity, asyncio.Handle | None] = {}  # Next slice of each activity.
        self._loop, self._end = asyncio.new_event_loop(), asyncio.Event()
        self._context = Context()  # Variables of the threads that submit tasks are not used.
        self._thread = threading.Thread(target=self._run, name="nerfmac", daemon=True)
        self._thread.start()

    def submit(self, task: Callable[[], T]) -> Future[T]:
        """Queue a task and return the future of its result. The worker thread runs it at once."""
        future: Future[T] = Future()
        if threading.current_thread() is self._thread:
            _fulfil(future, task)
        elif self._end.is_set():
            raise RuntimeError("the worker has ended")
        else:
            self._call(_fulfil, future, task)
        return future

    def add(self, activity: Activity) -> None:
        """Add an activity, and make its first slice due immediately."""
        self._due[activity] = None
        self.wake(activity)

    def remove(self, activity: Activity, last: Callable[[], None]) -> None:
        """Stop an activity, and wait until `last` has run on the worker thread, unless it ended."""

        def stop() -> None:
            if planned := self._due.pop(activity, None):
                planned.cancel()
            last()

        if not self._end.is_set():
            self.submit(stop).result()

    def wake(self, activity: Activity) -> None:
        """Make the next slice of an activity due immediately. Any thread may call this method."""
        self._call(self._schedule, activity, 0.0)

    def end(self) -> None:
        """End the worker thread after its current task or slice, within 10 seconds."""
        self._call(self._end.set)
        self._thread.join(timeout=10.0)

    def _call(self, function: Callable[..., object], *arguments: Any) -> None:
        with suppress(RuntimeError):  # The worker has ended.
            self._loop.call_soon_threadsafe(function, *arguments, context=self._context)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._end.wait())
        mx.clear_streams()  # If streams outlive their thread, MLX aborts the process.

    def _schedule(self, activity: Activity, pause: float) -> None:
        if activity in self._due:
            if planned := self._due[activity]:
                planned.cancel()
            self._due[activity] = self._loop.call_later(pause, self._execute, activity)

    def _execute(self, activity: Activity) -> None:
        try:
            with interval("viewer", work=type(activity).__name__):
                pause = activity.work()
        except Exception:
            log.exception("stopping %s", activity)  # The other activities are not affected.
            self._due.pop(activity, None)
            return
        if pause is not None:
            self._schedule(activity, pause)


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
