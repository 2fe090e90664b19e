"""Where the time of training goes on this machine: by kernel, on the host, and as a timeline."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx

from nerfmac.backend import references
from nerfmac.backend.device import processors
from nerfmac.backend.machine import machine
from nerfmac.common.checks import InputError
from nerfmac.common.timeline import Timeline, interval, recording
from nerfmac.film import check_video, film
from nerfmac.measure.ceilings import Ceilings, measure_ceilings
from nerfmac.measure.profile.parts import (
    STAGES,
    Host,
    Part,
    WholeStep,
    host_of,
    parts,
    stages,
    take_steps,
    time_launch,
    time_step,
)
from nerfmac.measure.step import NEVER_EVALUATED, recorded_launches
from nerfmac.measure.timing import Timing
from nerfmac.run import Run

STEPS = 64
"""Steps that the host's time and the timeline are of."""
FRAMES, SIZE, FPS = 6, (128, 96), 24.0
"""Frames, size and rate of the film in the timeline."""
LANE = "kernels"
"""Lane of the timeline in which kernels are launched one by one."""

HEADING = (
    f"{'stage and kernel':32}{'ms':>9}{'':20}{'share':>7}{'MB':>10}{'MFLOP':>10}{'M atomics':>10}"
    f"{'GB/s':>10}{'GFLOP/s':>10}{'of most':>14}  {'dtype':18}{'runs as'}"
)
COLUMNS = """\
ms: a kernel's launches by themselves (quartiles), with the arrays of a recorded step. MB: each
array is moved once. MFLOP: of the encoding and the networks. atomics: floats added where threads
meet. of most: the part of the machine's rate, of bytes or operations, the scarcer; the second
figure counts a row of a table as moved whenever it is needed. Above 100 % a cache holds arrays."""


@dataclass(frozen=True)
class Profile:
    """The figures, and the machine and run that they are of."""

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
        config, whole = self.run.config, self.whole
        by_stage = {name: _sum(some) for name, some in stages(self.parts).items()}
        step = {
            "ms": whole.step._asdict(),
            "rays": whole.state.rays,
            "slots": config.march.max_samples,
            "rays_per_second": whole.rays_per_second,
            "samples_per_second": whole.samples_per_second,
            "parts": [part.to_json(self.ceilings) for part in self.parts],
            "stages_ms": by_stage,
            "sum_ms": _sum(self.parts),
        }
        return {
            **self.machine,
            "preset": config.preset,
            "scene": self.run.scene.path,
            "after_steps": whole.state.step,
            "ceilings": self.ceilings._asdict(),
            "launch_ms": self.launch._asdict(),
            "host": self.host.to_json(),
            "references": self.references,
            "step": step,
        }

    def lines(self) -> Iterator[str]:
        """The figures as a table for people."""
        whole = self.whole
        yield (
            f"a step of {whole.state.rays} rays: {whole.step}, "
            f"{whole.rays_per_second:.3g} rays/s, {whole.samples_per_second:.3g} samples/s"
        )
        yield f"\n{HEADING}"
        for stage, some in stages(self.parts).items():
            if len(some) > 1:
                share = _sum(some) / whole.step.median
                yield f"{stage:32}{_sum(some):9.3f}{'':20}{share:7.1%}"
            for part in some:
                yield ("  " if len(some) > 1 else "") + self._line(part, 30 + 2 * (len(some) == 1))
        host = self.host
        yield (
            f"host: {host.step.median:.3f} ms from step to step; it builds the step for "
            f"{host.work.median:.3f} ms, launches it for {host.launch.median:.3f} ms and waits for "
            f"the device for {host.wait.median:.3f} ms"
        )
        yield f"an empty launch takes {self.launch.median:.3f} ms, which kernels' times leave out"
        for operation, why in self.references.items():
            yield f"{operation} runs as reference: {why}; its time is in 'everything else'"
        busy = os.getloadavg()[0]
        if busy > 1.5 * processors():
            yield (
                f"the machine is busy, {busy:.0f} tasks on {processors()} cores in the last "
                "minute: these figures are not to be trusted"
            )
        yield COLUMNS

    def _line(self, part: Part, width: int) -> str:
        timing, work = part.timing, part.work
        spread = f"({timing.low:.3f} to {timing.high:.3f})"
        share = timing.median / self.whole.step.median
        figures = f"{timing.median:9.3f}{spread:>20}{share:7.1%}"
        once, again = (part.fraction(self.ceilings, cached=cached) for cached in (True, False))
        of_most = f"{once or 0.0:.0%}" + (f" - {again or 0.0:.0%}" if again != once else "")
        counts = [count / 1e6 for count in (work.cached, work.operations, work.atomics)]
        counts += [(part.per_second(count) or 0.0) / 1e9 for count in work[:3:2]]
        figures += "".join(f"{each:10.2f}" if each else f"{'-':>10}" for each in counts)
        figures += f"{of_most if once else '-':>14}"
        return f"{part.name:{width}}{figures}  {', '.join(part.dtypes):18}{part.backend}"


def profile(
    run: Run,
    *,
    steps: int | None = None,
    seconds: float = 1.0,
    trace: Path | None = None,
    on_line: Callable[[str], None] = lambda _line: None,
) -> Profile:
    """Say where the time of `run`'s next training steps goes, on the current device.

    Args:
        run: trained on meanwhile, in memory; it has to have a folder of its own or none.
        steps: number of steps that are timed, rounded up to whole intervals between occupancy
            updates, and recorded; by default as many as `seconds` say, and 64.
        seconds: time for each figure, about.
        trace: file for the timeline, in Chrome's format; a step kernel by kernel, an evaluation and
            a film follow the steps.
        on_line: called with each line of a table for people.

    Raises:
        InputError: a picture of the scene is broken, or `trace` cannot be written.
    """
    about = machine()
    on_line(f"{about['device_name']}, mlx {about['mlx_version']}, preset {run.config.preset}")
    most = measure_ceilings(seconds)
    on_line(str(most))
    timeline = take_steps(run, STEPS if steps is None else steps)
    host = host_of(timeline)
    if trace is not None:
        _record_the_rest(run, timeline, 2.0 * seconds, on_line)
        timeline.write(trace)
    whole, launch = time_step(run, 4.0 * seconds, steps), time_launch(seconds)
    done = parts(run.trainer, whole, launch, seconds)
    found = Profile(about, run, most, whole, done, launch, host, references())
    for line in found.lines():
        on_line(line)
    return found


def _record_the_rest(
    run: Run, timeline: Timeline, seconds: float, on_line: Callable[[str], None]
) -> None:
    """Add to `timeline` a step kernel by kernel, an evaluation of about `seconds`, and a film."""
    with recording() as more, tempfile.TemporaryDirectory() as folder:
        _launch_one_by_one(run)
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


def _launch_one_by_one(run: Run) -> None:
    """Launch a recorded occupancy update and step again; the host waits for each kernel."""
    *_, update, step, _average = [[], *recorded_launches(run.trainer, run.state)]
    for name, launched in (("occupancy update", update), ("step", step)):
        with interval(f"{name}, kernel by kernel", LANE):
            for each in launched:
                if each.name not in NEVER_EVALUATED:
                    stage = STAGES.get(each.operation, each.operation)
                    with interval(each.name, LANE, operation=each.operation, stage=stage):
                        mx.eval(each.again())


def _sum(parts: Sequence[Part]) -> float:
    """Milliseconds of several parts together, by their medians."""
    return sum(part.timing.median for part in parts)


def check_capture(path: Path) -> None:
    """Raise `InputError` if no trace of the GPU can be written to `path` here."""
    if not mx.metal.is_available():
        raise InputError("a GPU trace is Metal's; expected an Apple GPU for --gpu-trace")
    if os.environ.get("MTL_CAPTURE_ENABLED") != "1":
        raise InputError("Metal writes a GPU trace only if MTL_CAPTURE_ENABLED=1 is set")
    if path.suffix != ".gputrace":
        raise InputError(f"{path} is no GPU trace's name; expected an ending of .gputrace")
    if path.exists():
        raise InputError(f"{path} exists already; Metal replaces no GPU trace")


@contextmanager
def captured(path: Path) -> Iterator[None]:
    """Record the GPU's work within the block to `path`, for Xcode. See `check_capture`."""
    mx.metal.start_capture(str(path))
    try:
        yield
    finally:
        mx.metal.stop_capture()
