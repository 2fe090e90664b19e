"""`nerfmac report`: write an HTML report of a run, for example for a paper or a bug report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from nerfmac.app.cli.arguments import parsed
from nerfmac.app.cli.choices import Device
from nerfmac.app.cli.declared import POSITIONAL, Shown
from nerfmac.app.export import write_report
from nerfmac.app.run import CONFIGURED, Run
from nerfmac.backend import choose_device
from nerfmac.common import checks
from nerfmac.training.method import Method


@dataclass(frozen=True)
class Arguments:
    """Write a self-contained HTML report of a run. It contains the configuration, curves, images,
    worst views, versions, timings and, if RUN/profile.json exists, a profile."""

    run: Annotated[Path, POSITIONAL, Shown("RUN")]
    """Run folder."""
    out: Annotated[Path | None, Shown("FILE.html")] = None
    """HTML file to write. [default: RUN/report.html]"""
    seconds: float = 20.0
    """Time in seconds for evaluating test views. More views are evaluated if it is larger."""
    device: Device = "auto"
    """Device to use. auto uses the GPU if available. [default: auto]"""


def main(argv: list[str], method: Method = CONFIGURED) -> int:
    """Run `nerfmac report` with the arguments `argv` and return the exit code."""
    arguments = parsed(Arguments, argv)
    checks.number("seconds", arguments.seconds, low=0.1)
    choose_device(arguments.device)
    run = Run.load(arguments.run, method=method)
    path = arguments.out or arguments.run / "report.html"
    write_report(run, arguments.run, path, seconds=arguments.seconds)
    print(path)
    return 0
