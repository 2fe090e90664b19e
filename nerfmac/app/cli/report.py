"""`nerfmac report`: write an HTML report of a run, for example for a paper or a bug report."""

from __future__ import annotations

from nerfmac.app.cli.options import Report
from nerfmac.app.export import write_report
from nerfmac.app.run import CONFIGURED, Run
from nerfmac.backend import choose_device
from nerfmac.common import checks
from nerfmac.training.method import Method


def main(arguments: Report, method: Method = CONFIGURED) -> int:
    """Run `nerfmac report` and return the exit code."""
    checks.number("seconds", arguments.seconds, low=0.1)
    choose_device(arguments.device)
    run = Run.load(arguments.run, method=method)
    path = arguments.out or arguments.run / "report.html"
    write_report(run, arguments.run, path, seconds=arguments.seconds)
    print(path)
    return 0
