"""Where the time of training goes on this machine: by kernel, on the host, and as a timeline."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

from nerfmac.backend import references
from nerfmac.backend.machine import machine
from nerfmac.checks import InputError
from nerfmac.film import check_video, film
from nerfmac.measure.bench import Ceilings, Timing, ceilings_line, measure_ceilings, no_line
from nerfmac.measure.profile import tables
from nerfmac.measure.profile.host import Host, host_of, take_steps
from nerfmac.measure.profile.parts import Part, parts, step_json
from nerfmac.measure.profile.replay import replay
from nerfmac.measure.profile.steps import WholeStep, time_interleaved, time_launch
from nerfmac.run import Run
from nerfmac.timeline import Timeline, recording

INTERLEAVED = 32.0
"""Time for interleaved steps, in units of that for a single figure: there are many of them."""

STEPS = 64
"""Steps of which the host's time and the timeline are."""

FRAMES, SIZE, FPS = 6, (128, 96), 24.0
"""Of the film in the timeline."""


@dataclass(frozen=True)
class Profile:
    """What was measured, and on what."""

    machine: dict[str, str]
    run: Run
    ceilings: Ceilings
    whole: WholeStep
    parts: list[Part]
    launch: Timing  # of an empty launch
    host: Host
    references: dict[str, str]  # operations that run as reference, and why

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON values, times in milliseconds."""
        config = self.run.config
        return {
            **self.machine,
            "preset": config.preset,
            "scene": self.run.scene.path,
            "after_steps": self.whole.state.step,
            "ceilings": self.ceilings._asdict(),
            "launch_ms": self.launch._asdict(),
            "host": self.host.to_json(),
            "references": self.references,
            "step": step_json(config.train.slots, self.whole, self.parts, self.ceilings),
        }


def profile(
    run: Run,
    *,
    steps: int | None = None,
    seconds: float = 1.0,
    trace: Path | None = None,
    on_line: Callable[[str], None] = no_line,
) -> Profile:
    """Say where the time of `run`'s next training steps goes, on the current device.

    Args:
        run: trained on meanwhile, in memory; it has to have a folder of its own or none.
        steps: how many steps are timed, rounded up to whole intervals between occupancy updates,
            and recorded; by default as many as `seconds` say, and 64.
        seconds: for each figure, about; a minute or two in all if it is 1.
        trace: a file for the timeline, in Chrome's format, in which a step kernel by kernel, an
            evaluation and a film follow the steps.
        on_line: is given each line of a table for people as soon as it is known.

    Raises:
        InputError: a picture of the scene is broken, or `trace` cannot be written.
    """
    about = machine()
    on_line(f"{about['device_name']}, mlx {about['mlx_version']}, preset {run.config.preset}")
    most = measure_ceilings(seconds)
    on_line(ceilings_line(most))
    timeline = take_steps(run, STEPS if steps is None else steps)
    host = host_of(timeline)
    if trace is not None:
        _record_the_rest(run, timeline, 2.0 * seconds, on_line)
        timeline.write(trace)
    interval = run.trainer.sampler.interval_at(run.state.step)
    rounds = None if steps is None else ceil(steps / interval)
    found = time_interleaved(run, INTERLEAVED * seconds, rounds)
    on_line(f"{tables.step_line(found.whole)}\n\n{tables.HEADING}")
    launch, slow = time_launch(seconds), references()
    done = list(parts(run.trainer, found, launch, seconds))
    for line in tables.part_lines(done, found.whole, most):
        on_line(line)
    on_line(tables.sum_line(done, found.whole))
    on_line(f"{tables.host_line(host)}\n{tables.launch_line(launch)}")
    for line in (*tables.reference_lines(slow), *tables.busy_lines(), *tables.COLUMNS):
        on_line(line)
    return Profile(about, run, most, found.whole, done, launch, host, slow)


def _record_the_rest(
    run: Run, timeline: Timeline, seconds: float, on_line: Callable[[str], None]
) -> None:
    """Add to `timeline` a step kernel by kernel, an evaluation of about `seconds`, and a film."""
    with recording() as more, tempfile.TemporaryDirectory() as folder:
        replay(run.trainer, run.state)
        if run.pictures().splits.get("test"):
            run.evaluate("test", seconds=seconds, progress=False)
        path = Path(folder, "film.gif")
        try:
            check_video(path, FPS)
        except InputError as error:
            on_line(f"the timeline has no film: {error}")
        else:
            film(run, run.orbit(FRAMES, SIZE), path, fps=FPS, progress=False)
    timeline.entries += more.entries
