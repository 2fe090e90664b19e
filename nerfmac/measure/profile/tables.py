"""The lines in which `nerfmac profile` shows its figures to people."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from nerfmac.backend.device import processors
from nerfmac.measure.bench import Ceilings, Timing
from nerfmac.measure.profile.host import Host
from nerfmac.measure.profile.parts import Part, difference_percent, stages, total
from nerfmac.measure.profile.steps import WholeStep

HEADING = (
    f"{'stage and kernel':32}{'ms':>9}{'':20}{'share':>7}{'MB':>10}{'MFLOP':>10}{'GB/s':>9}"
    f"{'GFLOP/s':>9}{'of most':>14}  {'dtype':18}{'runs as'}"
)
"""Heading of `part_lines`."""

COLUMNS = (
    "ms: how much shorter the step gets without the kernel and those above it (quartiles); below",
    "zero where that is lost in noise. MB and MFLOP are counted from shapes, each array moved",
    "once. Rates are those of the kernel alone, which finds more in a cache. of most: which part",
    "of the machine's rate that is, of bytes or operations, the scarcer; the second figure counts",
    "a row of a table as moved whenever it is needed. Above 100 % where a cache holds what is",
    "counted.",
)
"""What the columns mean."""


def step_line(whole: WholeStep) -> str:
    """The training step as it ran."""
    step = whole.step
    return (
        f"a step of {whole.state.rays} rays: {step.median:.2f} ms "
        f"({step.low:.2f} to {step.high:.2f}), "
        f"{whole.rays_per_second:.3g} rays/s, {whole.samples_per_second:.3g} samples/s"
    )


def part_lines(parts: Sequence[Part], whole: WholeStep, most: Ceilings) -> Iterator[str]:
    """A line for each stage of several parts, and for each part."""
    for stage, some in stages(parts).items():
        step = whole.step.median
        if len(some) > 1:
            yield f"{stage:32}{total(some):9.3f}{'':20}{total(some) / step:7.1%}"
        for part in some:
            indent = "  " if len(some) > 1 else ""
            yield _part_line(part, indent, step, most)


def _part_line(part: Part, indent: str, step: float, most: Ceilings) -> str:
    timing, work = part.timing, part.work
    spread = f"({timing.low:.3f} to {timing.high:.3f})"
    figures = f"{timing.median:9.3f}{spread:>20}{timing.median / step:7.1%}"
    if work.cached:
        once, again = (part.fraction(most, cached=cached) for cached in (True, False))
        of_most = f"{_percent(once)}" + (f" - {_percent(again)}" if again != once else "")
        figures += (
            f"{work.cached / 1e6:10.2f}{work.operations / 1e6:10.2f}{_giga(part.bandwidth):>9}"
            f"{_giga(part.rate):>9}{of_most:>14}"
        )
    else:
        figures += " " * 52
    return f"{indent + part.name:32}{figures}  {', '.join(part.dtypes):18}{part.backend}"


def busy_lines() -> Iterator[str]:
    """A warning if other programs keep the processor from this one."""
    busy = os.getloadavg()[0]
    if busy > 1.5 * processors():
        yield (
            f"the machine is busy, {busy:.0f} tasks on {processors()} cores in the last minute: "
            "these figures are not to be trusted"
        )


def sum_line(parts: Sequence[Part], whole: WholeStep) -> str:
    """The parts together beside the step."""
    return (
        f"{'sum':32}{total(parts):9.3f}: {difference_percent(parts, whole):+.1f} % from the step's "
        f"{whole.step.median:.3f} ms"
    )


def host_line(host: Host) -> str:
    """What the host does for a step."""
    return (
        f"host: {host.step.median:.3f} ms from step to step, of which it builds the step for "
        f"{host.work.median:.3f} ms, launches it for {host.launch.median:.3f} ms and waits for the "
        f"device for {host.wait.median:.3f} ms"
    )


def launch_line(launch: Timing) -> str:
    """What a launch costs by itself."""
    return f"a launch by itself takes {launch.median:.3f} ms, which rates leave out"


def reference_lines(references: Mapping[str, str]) -> Iterator[str]:
    """A line for each operation that runs as plain MLX operations, and why."""
    for operation, why in references.items():
        yield f"{operation} runs as reference: {why}; its time is in 'everything else'"


def _giga(rate: float | None) -> str:
    return "-" if rate is None else f"{rate / 1e9:.1f}"


def _percent(fraction: float | None) -> str:
    return "-" if fraction is None else f"{fraction:.0%}"
