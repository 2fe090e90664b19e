"""Profiling of training on this machine: time of each kernel, host time, and a timeline."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from math import atan
from pathlib import Path
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np

from nerfmac.app.measure.launches import NEVER_EVALUATED, recorded_launches
from nerfmac.app.measure.parts import STAGES, Part, WholeStep, parts, stages, time_launch, time_step
from nerfmac.app.measure.timing import Ceilings, Timing, measure, measure_ceilings, quartiles
from nerfmac.app.run import Run, Training
from nerfmac.app.video import check_video, render_video
from nerfmac.backend import current_device, references
from nerfmac.backend.host import processors
from nerfmac.backend.machine import machine
from nerfmac.common import Entry, InputError, Timeline, as_json, interval, recording
from nerfmac.config.rendering import VideoOptions
from nerfmac.geometry import Camera, Lens
from nerfmac.training.goal import Goal

SIDE = {"cpu": 200}  # Side of the timed image in pixels, by device; elsewhere 800.
STEPS = 64  # Number of training steps that are recorded for the host time and the timeline.
EVALUATED = 2  # Maximum number of test views that are evaluated for the timeline.
FRAMES, SIZE, FPS = 6, (128, 96), 24.0  # Frames, size, and rate of the timeline's video.
LANE = "kernels"  # Name of the timeline row for kernels that are launched one by one.
HEADING = (
    f"{'stage and kernel':32}{'ms':>9}{'(quartiles)':>20}{'share':>7}{'MB':>10}{'MFLOP':>10}"
    f"{'M atomics':>10}{'GB/s':>10}{'GFLOP/s':>10}{'of limit':>14}  {'dtype':18}{'runs as'}"
)
COLUMNS = """\
ms: median of the kernel's launches, repeated without the rest of the step; share: of the step;
MB: each array moved once; MFLOP: hash encoding and networks only; M atomics: 10^6 atomic
additions; of limit: rate of bytes or operations / this machine's highest, whichever is larger. A
second figure counts every access to a row of a table. Above 100 %, caches hold arrays."""


class Host(NamedTuple):
    """Time that the host spends per training step."""

    step: Timing  # from the beginning of a step to the beginning of the next step
    work: Timing  # building the graph of the step, including its share of occupancy updates
    launch: Timing  # starting the computation; on a busy CPU, this includes waiting
    wait: Timing  # waiting for the device


def take_steps(training: Training, steps: int) -> Timeline:
    """Train for `steps` additional steps and record their timeline."""
    with recording() as timeline:
        for _ in training.fit(Goal(steps=training.run.state.step + steps)):
            pass
    return timeline


def host_of(timeline: Timeline) -> Host:
    """Compute the host times of the steps in a timeline, without the last of several steps. A
    report counts as waiting, because the host reads results of the device."""
    entries = sorted(timeline.entries, key=lambda entry: entry.start)
    begins = [entry.start for entry in entries if entry.name == "step"]
    ends = begins[1:] or [max(entry.end or entry.start for entry in entries)]
    spans = list(zip(begins, ends, strict=False))
    whole = np.array([(end - begin) / 1e9 for begin, end in spans])
    waits = np.array([_spent(entries, span, ("wait for the device", "report")) for span in spans])
    launches = np.array([_spent(entries, span, ("launch",)) for span in spans])
    return Host(
        step=quartiles(whole),
        work=quartiles(whole - waits - launches),
        launch=quartiles(launches),
        wait=quartiles(waits),
    )


def _spent(entries: list[Entry], span: tuple[int, int], names: tuple[str, ...]) -> float:
    """Return the total seconds of the entries with one of `names` that begin in `span` (ns)."""
    begin, end = span
    inside = (entry for entry in entries if entry.name in names and begin <= entry.start < end)
    return sum(entry.seconds for entry in inside)


def profile(
    training: Training,
    *,
    steps: int | None = None,
    seconds: float = 1.0,
    trace: Path | None = None,
) -> dict[str, Any]:
    """Profile the next steps of a training, and print a table. The run is trained further.

    By default, `STEPS` steps are recorded, and steps are timed for about `seconds`. With `steps`,
    this number is recorded and timed, rounded up to whole intervals between occupancy updates. The
    timeline `trace`, in the trace event format of Chrome, contains the recorded steps, one step
    kernel by kernel, an evaluation, and a video.

    Returns:
        The measurements as JSON values, with times in milliseconds.
    """
    run, about, preset = training.run, machine(), training.run.config.preset
    _show(f"{about['device_name']}, mlx {about['mlx_version']}, preset {preset}")
    most = measure_ceilings(seconds)
    _show(str(most))
    timeline = take_steps(training, STEPS if steps is None else steps)
    host = host_of(timeline)
    if trace is not None:
        _record_the_rest(training, timeline)
        timeline.write(trace)
    whole, launch = time_step(training, 4.0 * seconds, steps), time_launch(seconds)
    assert training.trainer is not None
    measured = parts(training.trainer, whole, launch, seconds)
    image = time_image(run, seconds)
    for line in chain(_table(whole, measured, most), _remarks(host, launch, *image)):
        _show(line)
    return {
        **about,
        "preset": preset,
        "scene": as_json(run.scene.path),
        "after_steps": whole.state.step,
        "ceilings": most._asdict(),
        "launch_ms": launch._asdict(),
        "host": {
            "steps": host.step.calls,
            **{f"{name}_ms": timing._asdict() for name, timing in host._asdict().items()},
        },
        "image": {"side": image[0], "ms": image[1]._asdict()},
        "references": references(),
        "step": {
            "ms": whole.step._asdict(),
            "rays": whole.state.rays,
            "slots": run.config.march.max_samples,
            "rays_per_second": whole.rays_per_second,
            "samples_per_second": whole.samples_per_second,
            "parts": [part.to_json(most) for part in measured],
            "stages_ms": {name: _sum(some) for name, some in stages(measured).items()},
            "sum_ms": _sum(measured),
        },
    }


def _show(line: str) -> None:
    print(line, flush=True)


def _table(whole: WholeStep, measured: Sequence[Part], most: Ceilings) -> Iterator[str]:
    """Yield the lines about the step and its parts."""
    yield (
        f"a step of {whole.state.rays} rays: {whole.step}, "
        f"{whole.rays_per_second:.3g} rays/s, {whole.samples_per_second:.3g} samples/s"
    )
    yield f"\n{HEADING}"
    for stage, some in stages(measured).items():
        if is_group := len(some) > 1:
            yield f"{stage:32}{_sum(some):9.3f}{'':20}{_sum(some) / whole.step.median:7.1%}"
        for part in some:
            name, timing, work = "  " * is_group + part.name, part.timing, part.work
            spread = f"({timing.low:.3f} to {timing.high:.3f})"
            figures = f"{timing.median:9.3f}{spread:>20}{timing.median / whole.step.median:7.1%}"
            counts = [count / 1e6 for count in (work.cached, work.operations, work.atomics)]
            counts += [(part.per_second(count) or 0.0) / 1e9 for count in work[:3:2]]
            figures += "".join(f"{count:10.2f}" if count else f"{'-':>10}" for count in counts)
            cached, uncached = (part.fraction(most, cached=kind) for kind in (True, False))
            of_limit = f"{cached or 0.0:.0%}"
            of_limit += f" - {uncached or 0.0:.0%}" if uncached != cached else ""
            figures += f"{of_limit if cached else '-':>14}"
            yield f"{name:32}{figures}  {', '.join(part.dtypes):18}{part.backend}"


def _remarks(host: Host, launch: Timing, side: int, image: Timing) -> Iterator[str]:
    """Yield the lines below the table."""
    yield (
        f"the host takes {host.step.median:.3f} ms per step: it builds it in "
        f"{host.work.median:.3f} ms, launches it in {host.launch.median:.3f} ms and waits "
        f"{host.wait.median:.3f} ms for the device"
    )
    yield f"kernels' times exclude the time of an empty launch, {launch.median:.3f} ms"
    yield f"an image of {side}x{side} takes {image}, {1e3 * side**2 / image.median:.3g} rays/s"
    for operation, why in references().items():
        yield f"{operation} runs as reference: {why}; its time is in 'everything else'"
    busy = os.getloadavg()[0]
    if busy > 1.5 * processors():
        yield (
            f"do not trust these figures: the machine is busy, with {busy:.0f} tasks on "
            f"{processors()} cores in the last minute"
        )
    yield COLUMNS


def time_image(run: Run, seconds: float) -> tuple[int, Timing]:
    """Return the side length of a square image in pixels, and its rendering time. The camera has
    the pose and the horizontal field of view of the first training camera."""
    side, camera = SIDE.get(current_device(), 800), run.scene.cameras("train")[0]
    angle = 2.0 * atan(0.5 * camera.lens.width / camera.lens.fl_x)
    view, renderer = Camera(Lens.from_fov(angle, side, side), camera.pose), run.renderer()
    return side, measure(lambda: renderer.pixels(view, (1.0, 1.0, 1.0)), seconds=seconds)


def _record_the_rest(training: Training, timeline: Timeline) -> None:
    """Record the timelines of a step, kernel by kernel, of an evaluation, and of rendering a
    video."""
    run = training.run
    with recording() as more, tempfile.TemporaryDirectory() as folder:
        _launch_one_by_one(training)
        if run.images().splits.get("test"):
            run.evaluate("test", limit=EVALUATED, progress=False)
        path = Path(folder, "video.gif")
        try:
            check_video(path, FPS)
        except InputError as error:
            _show(f"the timeline has no video: {error}")
        else:
            cameras, video = run.orbit(FRAMES, SIZE), VideoOptions(fps=FPS)
            render_video(run, cameras, path, video=video, progress=False)
    timeline.entries += more.entries


def _launch_one_by_one(training: Training) -> None:
    """Repeat a recorded occupancy update and step. The host waits for each kernel."""
    assert training.trainer is not None
    recorded = recorded_launches(training.trainer, training.run.state)
    *_, update, step, _average = [[], *recorded]
    for computation, launches in (("occupancy update", update), ("step", step)):
        with interval(f"{computation}, kernel by kernel", LANE):
            for launched in launches:
                if launched.name not in NEVER_EVALUATED:
                    name, operation = launched.name, launched.operation
                    stage = STAGES.get(operation, operation)
                    with interval(name, LANE, operation=operation, stage=stage):
                        mx.eval(launched.again())


def _sum(parts: Sequence[Part]) -> float:
    """Return the sum of the median times of parts in milliseconds."""
    return sum(part.timing.median for part in parts)


def check_capture(path: Path) -> None:
    """Raise `InputError` if Metal cannot write a GPU trace to `path` on this machine."""
    if not mx.metal.is_available():
        raise InputError("--gpu-trace requires Metal; use a Mac with an Apple GPU")
    if os.environ.get("MTL_CAPTURE_ENABLED") != "1":
        raise InputError(
            "--gpu-trace requires MTL_CAPTURE_ENABLED=1; set this environment variable"
        )
    if path.suffix != ".gputrace":
        raise InputError(f"--gpu-trace is {path}; expected the file extension .gputrace")
    if path.exists():
        raise InputError(f"{path} already exists and cannot be overwritten; choose another name")


@contextmanager
def captured(path: Path) -> Iterator[None]:
    """Context manager that writes a GPU trace for Xcode to `path`; see `check_capture`."""
    mx.metal.start_capture(str(path))
    try:
        yield
    finally:
        mx.metal.stop_capture()
