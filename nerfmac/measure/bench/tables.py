"""The lines in which `nerfmac bench` shows its figures to people."""

from __future__ import annotations

from nerfmac.measure.bench.frame import Frame
from nerfmac.measure.bench.operations import Measured
from nerfmac.measure.ceilings import Ceilings
from nerfmac.measure.timing import Timing

OPERATIONS = f"{'operation':34}{'kernel':>10}{'':>17}{'reference':>10}{'ratio':>9}"
"""Heading of `operation_line`."""


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


def frame_line(frame: Frame) -> str:
    """The picture's time."""
    size = f"{frame.side}x{frame.side}"
    return f"a picture of {size}: {_spread(frame.timing)}, {frame.rays_per_second:.3g} rays/s"


def _spread(timing: Timing) -> str:
    return f"{timing.median:.2f} ms ({timing.low:.2f} to {timing.high:.2f})"
