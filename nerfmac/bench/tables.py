"""The lines in which `nerfmac bench` shows its figures to people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nerfmac.bench.ceilings import Ceilings
from nerfmac.bench.frame import Frame
from nerfmac.bench.operations import Measured
from nerfmac.bench.parts import Part, apart, total
from nerfmac.bench.steps import Stepped
from nerfmac.bench.timing import Timing

OPERATIONS = f"{'operation':34}{'kernel':>10}{'':>17}{'reference':>10}{'ratio':>9}"
"""Heading of `operation_line`."""

PARTS = (
    f"{'part of the step':30}{'time':>11}{'':18}{'alone':>9}{'MB once':>9}{'anew':>8}{'MFLOP':>9}"
    f"{'x once':>8}{'x anew':>8}"
)
"""Heading of `part_line`."""


def ceilings_line(most: Ceilings) -> str:
    """The device's most, and how it was measured."""
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


def step_line(whole: Stepped) -> str:
    """The training step as it ran."""
    return (
        f"a step of {whole.state.rays} rays: {_spread(whole.step)}, "
        f"{whole.rays_per_second:.3g} rays/s, {whole.samples_per_second:.3g} samples/s"
    )


def part_line(part: Part, most: Ceilings) -> str:
    """A part's time, its counts, and its time over what these take at the ceilings."""
    timing, work, alone = part.timing, part.work, part.alone or part.timing
    line = f"{part.name:30}{timing.median:8.3f} ms{f'({timing.low:.3f} to {timing.high:.3f})':>18}"
    limits = (part.limit(most, cached=cached) for cached in (True, False))
    return (
        f"{line}{alone.median:9.3f}{work.once / 1e6:9.2f}{work.anew / 1e6:8.2f}"
        f"{work.operations / 1e6:9.2f}"
        + "".join(f"{alone.median / limit:8.1f}" for limit in limits)
    )


def sum_lines(
    parts: Sequence[Part], whole: Stepped, launch: Timing, host: Timing | None
) -> Iterator[str]:
    """The parts together beside the step, and what the columns mean.

    `launch` by itself; what the `host` does for a step, where it is not the device.
    """
    difference = apart(parts, whole)
    yield (
        f"{'sum':30}{total(parts):8.3f} ms, {difference:+.1f} % from the step's "
        f"{whole.step.median:.3f} ms"
    )
    if host:
        yield (
            f"the host builds and launches a step in {host.median:.3f} ms "
            f"({host.low:.3f} to {host.high:.3f}), while the device works on the one before"
        )
    yield f"a launch by itself takes {launch.median:.3f} ms, which is left out of a kernel alone"
    yield "time: what the step gets shorter by without the kernel and those above it, below zero"
    yield "where that is lost in the noise; alone: the kernel by itself, to which x belongs"
    yield "bytes and operations are counted from shapes. once: each array is moved once; anew: each"
    yield "row of a table every time it is needed. x: how many times as long as these take at the"
    yield "most; less than 1 where a cache holds what the count takes for moved"


def frame_line(frame: Frame) -> str:
    """The picture's time."""
    size = f"{frame.side}x{frame.side}"
    return f"a picture of {size}: {_spread(frame.timing)}, {frame.rays_per_second:.3g} rays/s"


def _spread(timing: Timing) -> str:
    return f"{timing.median:.2f} ms ({timing.low:.2f} to {timing.high:.2f})"
