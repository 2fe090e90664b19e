"""What the host does while the device trains, from the timeline of steps."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nerfmac.measure.timing import Timing, quartiles
from nerfmac.run import Run
from nerfmac.timeline import Entry, Timeline, recording
from nerfmac.training.goal import Goal

WAIT = "wait for the device"
"""Name of the interval in which training waits for the device."""


class Host(NamedTuple):
    """A step as the host sees it."""

    step: Timing  # from its beginning to that of the next
    work: Timing  # building it, and its part of updates and reports
    launch: Timing  # handing it to the device; MLX waits in there if a CPU has enough to do
    wait: Timing  # for the device, which is behind
    steps: int

    def to_json(self) -> dict[str, Any]:
        """The record as JSON values, times in milliseconds."""
        *timings, steps = self._asdict().items()
        return dict([steps]) | {f"{name}_ms": each._asdict() for name, each in timings}


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
