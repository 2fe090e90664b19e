"""What the host does while the device trains: the steps of a timeline, and Python's own profile."""

from __future__ import annotations

import cProfile
import io
import pstats
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nerfmac.files import appearing
from nerfmac.measure.timing import Timing, quartiles
from nerfmac.run import Run
from nerfmac.timeline import Entry, Timeline, recording
from nerfmac.training.goal import Goal

WAIT = "wait for the device"
MOST_LINES = 12
"""Functions that are listed of Python's profile."""


class Host(NamedTuple):
    """A step as the host sees it."""

    step: Timing  # from its beginning to that of the next
    work: Timing  # building it, and its part of updates and reports
    launch: Timing  # handing it to the device; MLX waits in there if a CPU has enough to do
    wait: Timing  # for the device, which is behind
    steps: int

    def to_json(self) -> dict[str, Any]:
        """The record as JSON values, times in milliseconds."""
        return {
            "steps": self.steps,
            "step_ms": self.step._asdict(),
            "work_ms": self.work._asdict(),
            "launch_ms": self.launch._asdict(),
            "wait_ms": self.wait._asdict(),
        }


def take_steps(run: Run, steps: int) -> Timeline:
    """Train `run` on by so many steps, and record them."""
    with recording() as timeline:
        for _ in run.fit(Goal(steps=run.state.step + steps)):
            pass
    return timeline


def host_of(timeline: Timeline) -> Host:
    """What the host did for the steps of `timeline`; the last step is left out if there are more.

    A step that is followed by a report ends with it: the host reads there what the device has
    computed, so all of a report counts as waiting.
    """
    entries = sorted(timeline.entries, key=lambda each: each.start)
    begins = [each.start for each in entries if each.name == "step"]
    ends = begins[1:] or [max(each.end or each.start for each in entries)]
    spans = list(zip(begins, ends, strict=False))
    whole = np.array([(end - begin) / 1e9 for begin, end in spans])
    waits = np.array([_spent(entries, span, (WAIT, "report")) for span in spans])
    launches = np.array([_spent(entries, span, ("launch",)) for span in spans])
    return Host(
        step=quartiles(whole),
        work=quartiles(whole - waits - launches),
        launch=quartiles(launches),
        wait=quartiles(waits),
        steps=len(spans),
    )


def _spent(entries: list[Entry], span: tuple[int, int], names: tuple[str, ...]) -> float:
    """Seconds of the intervals of these names that began between two moments."""
    begin, end = span
    return sum(each.seconds for each in entries if each.name in names and begin <= each.start < end)


@contextmanager
def python_profile(path: Path) -> Iterator[list[str]]:
    """Profile the Python of what is within it to `path`, which snakeviz and pstats read.

    Gives a list that has the longest functions, a line each, afterwards. Raises `InputError` if
    `path` cannot be written.
    """
    profile, lines = cProfile.Profile(), list[str]()
    with appearing(path) as partial:
        profile.enable()
        try:
            yield lines
        finally:
            profile.disable()
        profile.dump_stats(partial)
    text = io.StringIO()
    pstats.Stats(profile, stream=text).strip_dirs().sort_stats("tottime").print_stats(MOST_LINES)
    lines += [line for line in text.getvalue().splitlines() if line.strip()]
