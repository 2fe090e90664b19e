"""`nerfmac bench`: every operation's time on this machine, beside its reference's."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro

from nerfmac import checks
from nerfmac.backend import choose_device, current_device, memory_bytes
from nerfmac.backend.kernel import why_reference
from nerfmac.bench.operations import Measured, measure_operations
from nerfmac.checks import InputError
from nerfmac.cli.choices import Device, Preset
from nerfmac.cli.outputs import machine
from nerfmac.config import preset
from nerfmac.files import write_json


@dataclass(frozen=True)
class Arguments:
    """Time every operation, at the sizes of a preset's training step."""

    preset: Preset = "auto"
    """Whose sizes."""
    device: Device = "auto"
    """What computes."""
    seconds: float = 1.0
    """Time for each figure, about."""
    json: Path | None = None
    """Write the figures to this file too."""


def main(argv: list[str]) -> int:
    """Measure as `argv` says; return the exit code."""
    arguments = tyro.cli(Arguments, prog="nerfmac bench", args=argv)
    checks.number("seconds", arguments.seconds, low=0.01)
    choose_device(arguments.device)
    if why := why_reference():
        raise InputError(f"there are no kernels to time: {why}")
    config = preset(arguments.preset, current_device(), memory_bytes())
    about = machine()
    print(f"{about['device_name']}, mlx {about['mlx_version']}, preset {config.preset}")
    print(f"{'':34}{'kernel':>10}{'':>17}{'reference':>10}{'ratio':>9}")
    rows = []
    for measured in measure_operations(config, arguments.seconds):
        print(_row(measured), flush=True)
        rows.append(measured)
    if arguments.json:
        figures = {
            row.name: {
                "kernel_ms": row.kernel._asdict(),
                "reference_ms": row.reference._asdict(),
                "ratio": row.ratio,
            }
            for row in rows
        }
        write_json(arguments.json, {**about, "preset": config.preset, "operations": figures})
    return 0


def _row(measured: Measured) -> str:
    kernel, reference = measured.kernel, measured.reference
    spread = f"({kernel.low:.2f} to {kernel.high:.2f})"
    return (
        f"{measured.name:34}{kernel.median:7.2f} ms {spread:>16}{reference.median:7.1f} ms"
        f"{measured.ratio:8.1f}x"
    )
