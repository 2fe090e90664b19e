"""The lines in which `nerfmac bench` shows its figures to people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nerfmac.bench.ceilings import Ceilings
from nerfmac.bench.frame import Frame
from nerfmac.bench.operations import Measured
from nerfmac.bench.parts import Part, difference_percent, total
from nerfmac.bench.steps import WholeStep
from nerfmac.bench.timing import Timing

OPERATIONS = f"{'operation':34}{'kernel':>10}{'':>17}{'reference':>10}{'ratio':>9}"
"""Heading of `operation_line`."""

PARTS = (
    f"{'':56}{'cached':>12}{'':9}{'uncached':>9}\n"
    f"{'part of the step':30}{'ms':>8}{'':18}{'alone':>9}{'MB':>9}{'x':>6}{'MB':>10}{'x':>6}"
    f"{'MFLOP':>10}"
)
"""Heading of `part_line`, two lines."""


def ceilings_line(most: Ceilings) -> str:
    """The device's highest rates, and how they were measured."""
    return (
        f"at most {most.bandwidth / 1e9:.1f} GB/s, {most.rate / 1e9:.0f} GFLOP/s, measured now by "
        f"{most.method}"
    )


def operation_line(measured: Measured) -> str:
    """An operation by kernel and by reference."""
    kernel, reference = measured.kernel, measured.reference
    spread = f"({kernel.low:.2f} to {kernel.high:.2f})"
    return (
        f"{measured.name:34}{kernel.median:7.2f} ms {spread:>16}{reference.median:7.1f} ms"
        f"{measured.ratio:8.1f}x"
    )


def step_line(whole: WholeStep) -> str:
    """The training step as it ran."""
    return (
        f"a step of {whole.state.rays} rays: {_spread(whole.step)}, "
        f"{whole.rays_per_second:.3g} rays/s, {whole.samples_per_second:.3g} samples/s"
    )


def part_line(part: Part, most: Ceilings) -> str:
    """A part's time, its counts, and its time alone over the counts' time at the ceilings."""
    timing, work, alone = part.timing, part.work, part.alone or part.timing
    cells = ""
    for moved, cached in ((work.cached, True), (work.uncached, False)):
        cells += f"{moved / 1e6:{9 if cached else 10}.2f}"
        cells += f"{alone.median / part.limit(most, cached=cached):6.1f}"
    return (
        f"{part.name:30}{timing.median:8.3f}{f'({timing.low:.3f} to {timing.high:.3f})':>18}"
        f"{alone.median:9.3f}{cells}{work.operations / 1e6:10.2f}"
    )


def sum_lines(
    parts: Sequence[Part], whole: WholeStep, launch: Timing, host: Timing | None
) -> Iterator[str]:
    """The parts together beside the step, and what the columns mean.

    `launch`: the time of an empty launch. `host`: the host's time for a step; None if the host is
    the device.
    """
    yield (
        f"{'sum':30}{total(parts):8.3f}: {difference_percent(parts, whole):+.1f} % from the step's "
        f"{whole.step.median:.3f} ms"
    )
    if host:
        yield (
            f"the host builds and launches a step in {host.median:.3f} ms "
            f"({host.low:.3f} to {host.high:.3f}), while the device works on the one before"
        )
    yield f"a launch by itself takes {launch.median:.3f} ms, which `alone` leaves out"
    yield from COLUMNS


COLUMNS = (
    "ms: how much shorter the step gets without the kernel and those above it (quartiles); below",
    "zero where that is lost in noise. alone: the kernel by itself.",
    "MB and MFLOP are counted from shapes. cached: each array is moved once; uncached: each row of",
    "a table whenever it is needed. x: the time alone over what MB and MFLOP take at the most;",
    "below 1 where a cache holds what is counted as moved.",
)
"""What the columns of `part_line` mean."""


def frame_line(frame: Frame) -> str:
    """The picture's time."""
    size = f"{frame.side}x{frame.side}"
    return f"a picture of {size}: {_spread(frame.timing)}, {frame.rays_per_second:.3g} rays/s"


def _spread(timing: Timing) -> str:
    return f"{timing.median:.2f} ms ({timing.low:.2f} to {timing.high:.2f})"
