"""`nerfmac report`: one page of a run, to be attached to a paper or a bug report."""

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
    """Write one self-contained HTML page about a run: configuration, curves, images, worst views,
    versions, times and, if RUN/profile.json exists, a profile."""

    run: Annotated[Path, POSITIONAL, Shown("RUN")]
    """Folder of a run."""
    out: Annotated[Path | None, Shown("FILE.html")] = None
    """Page to write; by default RUN/report.html."""
    seconds: float = 20.0
    """Seconds to spend on evaluating test views. More: more views are evaluated."""
    device: Device = "auto"
    """Device that computes; auto takes the GPU if there is one."""


def main(argv: list[str], method: Method = CONFIGURED) -> int:
    """Write the page as `argv` says; return the exit code."""
    arguments = parsed(Arguments, argv)
    checks.number("seconds", arguments.seconds, low=0.1)
    choose_device(arguments.device)
    run = Run.load(arguments.run, method=method)
    path = arguments.out or arguments.run / "report.html"
    write_report(run, arguments.run, path, seconds=arguments.seconds)
    print(path)
    return 0
