"""Recording of a program timeline, with a lane for each thread, for ui.perfetto.dev,
chrome://tracing, or speedscope.

    with recording() as timeline:
        with interval("step", number=3):
            event("found in the cache", kernel="adam")
    timeline.write(Path("trace.json"))

Outside a `recording`, `interval` and `event` do nothing. The file has Chrome's trace event format
("Trace Event Format", Google 2016), with times in microseconds.
"""

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from nerfmac.common.files import appearing


class Entry(NamedTuple):
    """A recorded interval or, if `end` is None, an event."""

    name: str
    lane: str
    start: int  # nanoseconds of `time.perf_counter_ns`
    end: int | None
    values: dict[str, Any]  # details that the trace viewer shows

    @property
    def seconds(self) -> float:
        """Duration of an interval in seconds, or 0 for an event."""
        return (self.end - self.start) / 1e9 if self.end is not None else 0.0


class Timeline:
    """Recorded intervals and events, sorted by their end times."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []  # appending is safe from any thread
        self._begin = time.perf_counter_ns()

    def seconds(self, name: str) -> list[float]:
        """Return the durations in seconds of the intervals with a name, in order."""
        return [entry.seconds for entry in list(self.entries) if entry.name == name]

    def to_json(self) -> dict[str, Any]:
        """Return the timeline in Chrome's trace event format. Time 0 is the start of the
        recording."""
        entries = sorted(self.entries, key=lambda entry: (entry.start, -(entry.end or entry.start)))
        lanes = {lane: number for number, lane in enumerate(dict.fromkeys(e.lane for e in entries))}
        process = {"pid": os.getpid()}
        events: list[dict[str, Any]] = [
            {"ph": "M", "name": "thread_name", "tid": number, "args": {"name": lane}, **process}
            for lane, number in lanes.items()
        ]
        for name, lane, start, end, values in entries:
            kind: dict[str, Any] = {"ph": "i", "s": "t"}
            if end is not None:
                kind = {"ph": "X", "dur": (end - start) / 1e3}
            when = {"ts": (start - self._begin) / 1e3, "tid": lanes[lane], **process}
            events.append({"name": name, **kind, **when, "args": values})
        return {"traceEvents": events, "displayTimeUnit": "ms"}

    def write(self, path: Path) -> None:
        """Write the timeline to a JSON file."""
        with appearing(path) as partial:
            partial.write_text(json.dumps(self.to_json()) + "\n", encoding="utf-8")


_NOTHING = nullcontext()
_recorded: Timeline | None = None


@contextmanager
def recording() -> Iterator[Timeline]:
    """Return a context manager that records a timeline of all threads.

    An inner recording pauses the outer one.

    Yields:
        Timeline that receives the entries.
    """
    global _recorded
    before, _recorded = _recorded, Timeline()
    try:
        yield _recorded
    finally:
        _recorded = before


def interval(name: str, **values: Any) -> AbstractContextManager[object]:
    """Return a context manager that records the duration of its block as an interval."""
    return _NOTHING if _recorded is None else _interval(_recorded, name, values)


def event(name: str, **values: Any) -> None:
    """Record an event at the current time."""
    if _recorded is not None:
        now = time.perf_counter_ns()
        _recorded.entries.append(Entry(name, _thread(), now, None, values))


@contextmanager
def _interval(timeline: Timeline, name: str, values: dict[str, Any]) -> Iterator[None]:
    start = time.perf_counter_ns()
    try:
        yield
    finally:
        timeline.entries.append(Entry(name, _thread(), start, time.perf_counter_ns(), values))


def _thread() -> str:
    name = threading.current_thread().name
    return "main" if name == "MainThread" else name
