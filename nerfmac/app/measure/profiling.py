"""Profiling of training on this machine: time and work of each part of a step, host time, and a
timeline.

The launches of each kernel are repeated with the same arrays, and the time of as many empty
launches is subtracted. The remaining time of the step is called "everything else": MLX operations,
references, launches, reports, and waiting for the host. It may be negative, because kernels may
overlap in a step but not while they are repeated.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from math import atan, ceil
from pathlib import Path
from statistics import mean
from typing import Any

import mlx.core as mx
import numpy as np
from tqdm.auto import tqdm

from nerfmac.app.measure.launches import Work, by_kernel, recorded_launches, repeat
from nerfmac.app.measure.timing import Ceilings, Timing, measure, repeated
from nerfmac.app.run import Run, Training
from nerfmac.backend import current_device, references, uncompiled
from nerfmac.backend.host import processors
from nerfmac.backend.machine import machine
from nerfmac.common import Entry, Timeline, as_json, recording
from nerfmac.geometry import Camera, Lens
from nerfmac.ops.occupancy_update import pack_bits
from nerfmac.training.goal import Goal, Report
from nerfmac.training.optimizer import AVERAGED_EVERY
from nerfmac.training.state import TrainState
from nerfmac.training.trainer import Trainer

STAGES = {
    **dict.fromkeys(("uniform", "draw_pixels"), "rays"),
    **dict.fromkeys(("march", "packing", "visibility", "thin"), "samples"),
    **dict.fromkeys(("hash_encode", "spherical_harmonics"), "encoding"),
    **dict.fromkeys(("composite", "expose"), "compositing"),
    **dict.fromkeys(("penalty", "sensor_depth", "huber", "masked_mean"), "loss"),
    **dict.fromkeys(("loss_scale", "adam"), "optimizer"),
}
"""Stage of the training step for each operation. An operation that is not listed is a separate
stage."""
REST = "everything else"  # Part of a step that is not measured on its own.
SETTLING = 5  # Number of reports before timing, until the number of rays converges.
SIDE = {"cpu": 200}  # Side of the timed image in pixels, by device; elsewhere 800.
STEPS = 64  # Number of training steps that are recorded for the host time and the timeline.
HEADING = (
    f"{'stage and kernel':32}{'ms':>9}{'(quartiles)':>20}{'share':>7}{'MB':>10}{'MFLOP':>10}"
    f"{'M atomics':>10}{'GB/s':>10}{'GFLOP/s':>10}{'of limit':>14}  {'dtype':18}{'runs as'}"
)
COLUMNS = """\
ms: median of the kernel's launches, repeated without the rest of the step; share: of the step;
MB: each array moved once; MFLOP: hash encoding and networks only; M atomics: 10^6 atomic
additions; of limit: rate of bytes or operations / this machine's highest, whichever is larger. A
second figure counts every access to a row of a table. Above 100 %, caches hold arrays."""

Part = dict[str, Any]
"""Part of a training step, as in the JSON file: a kernel, a computation for several steps, or
"everything else". `ms` is the `Timing`, and `counted` the `Work`, both per step."""


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
    timeline `trace`, in the trace event format of Chrome, contains the recorded steps.

    Returns:
        The measurements as JSON values, with times in milliseconds.
    """
    run, about, preset = training.run, machine(), training.run.config.preset
    print(f"{about['device_name']}, mlx {about['mlx_version']}, preset {preset}", flush=True)
    most = Ceilings.measured(seconds)
    print(most, flush=True)
    timeline = take_steps(training, STEPS if steps is None else steps)
    host = host_times(timeline)
    if trace is not None:
        timeline.write(trace)
    state, step = time_step(training, 4.0 * seconds, steps)
    nearly_empty = partial(pack_bits, mx.zeros(32), mx.zeros(1))
    launch = measure(nearly_empty, seconds=seconds, queued=True)
    assert training.trainer is not None
    step["parts"] = parts = step_parts(training.trainer, state, step["ms"], launch, most, seconds)
    step["stages_ms"] = {name: _sum(some) for name, some in stages(parts).items()}
    step["sum_ms"] = _sum(parts)
    side, image = time_image(run, seconds)
    print("\n".join([*_table(step), *_remarks(host, launch, side, image)]), flush=True)
    values = {
        **about,
        "preset": preset,
        "scene": run.scene.path,
        "after_steps": state.step,
        "ceilings": most,
        "launch_ms": launch,
        "host": {"steps": host["step_ms"].calls, **host},
        "image": {"side": side, "ms": image},
        "references": references(),
        "step": step,
    }
    return as_json(values)


def take_steps(training: Training, steps: int) -> Timeline:
    """Train for `steps` additional steps and record their timeline."""
    with recording() as timeline:
        for _ in training.fit(Goal(steps=training.run.state.step + steps)):
            pass
    return timeline


def host_times(timeline: Timeline) -> dict[str, Timing]:
    """Compute the host times of the steps in a timeline, without the last of several steps.

    Returns:
        The time `step_ms` from the beginning of a step to the beginning of the next step, and its
        parts: `work_ms` for building the graph, including the share of occupancy updates;
        `launch_ms` for starting the computation, which includes waiting on a busy CPU; and
        `wait_ms` for waiting for the device, including reports, because these read results.
    """
    entries = sorted(timeline.entries, key=lambda entry: entry.start)
    begins = [entry.start for entry in entries if entry.name == "step"]
    ends = begins[1:] or [max(entry.end or entry.start for entry in entries)]
    spans = list(zip(begins, ends, strict=False))
    whole = np.array([(end - begin) / 1e9 for begin, end in spans])
    waits = np.array([_spent(entries, span, ("wait for the device", "report")) for span in spans])
    launches = np.array([_spent(entries, span, ("launch",)) for span in spans])
    times = {"step": whole, "work": whole - waits - launches, "launch": launches, "wait": waits}
    return {f"{name}_ms": Timing.of(seconds) for name, seconds in times.items()}


def _spent(entries: list[Entry], span: tuple[int, int], names: tuple[str, ...]) -> float:
    """Return the total seconds of the entries with one of `names` that begin in `span` (ns)."""
    begin, end = span
    inside = (entry for entry in entries if entry.name in names and begin <= entry.start < end)
    return sum(entry.seconds for entry in inside)


def time_step(
    training: Training, seconds: float, steps: int | None = None
) -> tuple[TrainState, dict[str, Any]]:
    """Measure the time of a step, for about `seconds` or for `steps` steps, rounded up to whole
    reports. The run is first trained until its speed is constant. Every timed round begins from
    this state, so all rounds have the same rays and samples.

    Returns:
        The state before the timed steps, and the time per step `ms`, including the share of
        updates, averages, and reports, with the numbers of rays and samples.
    """
    state = list(islice(training.fit(Goal()), SETTLING))[-1].state
    trainer = training.trainer
    assert trainer is not None
    interval = trainer.model.sampler.interval_at(state.step)
    rounds = None if steps is None else ceil(steps / interval)
    reports: list[Report] = []

    def train() -> float:
        reports.extend(trainer.train(state, Goal(steps=state.step + interval)))
        now = reports[-1].state
        return (now.train_seconds - state.train_seconds) / (now.step - state.step)

    rates = repeated(train, seconds=seconds, rounds=rounds)
    spent = list(tqdm(rates, "steps", rounds, unit="round", leave=False))
    last = reports[-1]
    rays_per_second = last.state.rays / mean(spent)
    return state, {
        "ms": Timing.of(spent),
        "rays": state.rays,
        "slots": training.run.config.march.max_samples,
        "rays_per_second": rays_per_second,
        "samples_per_second": last.samples_per_second / last.rays_per_second * rays_per_second,
    }


def step_parts(
    trainer: Trainer,
    state: TrainState,
    whole: Timing,
    launch: Timing,
    most: Ceilings,
    seconds: float,
) -> list[Part]:
    """Measure the time of each part of a step from `state`. The medians add up to the median of
    the `whole` step. `launch` is the time of an empty launch."""
    sampler, recorded = trainer.model.sampler, recorded_launches(trainer, state)
    kernels, rare = [], []
    for name, same in by_kernel(recorded[sampler.phases]).items():
        alone = measure(partial(repeat, same), seconds=seconds, queued=True)
        stage = STAGES.get(same[0].operation, same[0].operation)
        work = sum((each.work for each in same), Work())
        time = alone.less(launch.times(len(same)))
        kernels.append(_part(name, time, most, work, stage, same[0].dtypes))
    interval, average = sampler.interval_at(state.step), sampler.phases + 1
    seldom = [("average", average, AVERAGED_EVERY, "optimizer")]
    if sampler.phases:
        phase = sampler.phase_at(state.step)
        seldom.insert(0, ("occupancy update", phase, interval, "occupancy update"))
    for name, which, every, stage in seldom:
        alone = measure(_compiled(trainer, state, which), seconds=seconds, queued=True)
        launched = chain(*by_kernel(recorded[which]).values())
        work = sum((each.work for each in launched), Work()) // every
        time = alone.times(1 / every)
        rare.append(_part(f"{name}, 1/{every}", time, most, work, stage))
    rest = whole.median - _sum([*kernels, *rare])
    rest_time = Timing(rest, rest, rest, whole.calls)
    return [*kernels, _part(REST, rest_time, most, Work(), REST), *rare]


def _compiled(trainer: Trainer, state: TrainState, which: int) -> Callable[[], Any]:
    """Return a compiled function that executes only the computation `which` of `Trainer.trial`."""
    arrays, numbers = state.arrays(), state.numbers()

    def compute(arrays: dict[str, mx.array]) -> Any:
        # If compiled functions inside remained compiled, they would be traced a second time.
        with uncompiled():
            trial = trainer.trial(TrainState.of(arrays, numbers))
            return next(islice(trial, which, None))

    return partial(mx.compile(compute), arrays)


def _part(
    name: str, ms: Timing, most: Ceilings, work: Work, stage: str, dtypes: Sequence[str] = ()
) -> Part:
    """Return the time and the work of a part of a step, and its fractions of the rates `most` in
    the roofline model. Rates are None if the measured time is zero."""

    def rate(amount: float) -> float | None:
        return amount / ms.median if ms.median > 0 else None

    def fraction(*, cached: bool) -> float | None:
        return rate(1e3 * work.seconds(most.bandwidth, most.rate, cached=cached)) or None

    return {
        "part": name,
        "stage": stage,
        "backend": "mlx" if stage == REST else current_device(),
        "dtypes": dtypes,
        "ms": ms,
        "counted": work,
        "bytes_per_second": rate(1e3 * work.cached),
        "operations_per_second": rate(1e3 * work.operations),
        "fraction_of_machine_cached": fraction(cached=True),
        "fraction_of_machine_uncached": fraction(cached=False),
    }


def stages(parts: Sequence[Part]) -> dict[str, list[Part]]:
    """Group the parts by stage, in the order of the step."""
    by_stage: dict[str, list[Part]] = {}
    for part in parts:
        by_stage.setdefault(part["stage"], []).append(part)
    return by_stage


def _sum(parts: Sequence[Part]) -> float:
    """Return the sum of the median times of parts in milliseconds."""
    return sum(part["ms"].median for part in parts)


def _table(step: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines about the step and its parts."""
    whole = step["ms"].median
    yield (
        f"a step of {step['rays']} rays: {step['ms']}, "
        f"{step['rays_per_second']:.3g} rays/s, {step['samples_per_second']:.3g} samples/s"
    )
    yield f"\n{HEADING}"
    for stage, some in stages(step["parts"]).items():
        if is_group := len(some) > 1:
            yield f"{stage:32}{_sum(some):9.3f}{'':20}{_sum(some) / whole:7.1%}"
        for part in some:
            name, timing, work = "  " * is_group + part["part"], part["ms"], part["counted"]
            spread = f"({timing.low:.3f} to {timing.high:.3f})"
            figures = f"{timing.median:9.3f}{spread:>20}{timing.median / whole:7.1%}"
            counts = [count / 1e6 for count in (work.cached, work.operations, work.atomics)]
            counts += [(part[f"{of}_per_second"] or 0.0) / 1e9 for of in ("bytes", "operations")]
            figures += "".join(f"{count:10.2f}" if count else f"{'-':>10}" for count in counts)
            cached, uncached = (part[f"fraction_of_machine_{of}"] for of in ("cached", "uncached"))
            of_limit = f"{cached or 0.0:.0%}"
            of_limit += f" - {uncached or 0.0:.0%}" if uncached != cached else ""
            figures += f"{of_limit if cached else '-':>14}"
            yield f"{name:32}{figures}  {', '.join(part['dtypes']):18}{part['backend']}"


def _remarks(host: Mapping[str, Timing], launch: Timing, side: int, image: Timing) -> Iterator[str]:
    """Yield the lines below the table."""
    step, work, launched, waited = (timing.median for timing in host.values())
    yield (
        f"the host takes {step:.3f} ms per step: it builds it in {work:.3f} ms, launches it in "
        f"{launched:.3f} ms and waits {waited:.3f} ms for the device"
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
