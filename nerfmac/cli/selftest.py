"""`nerfmac selftest`: every kernel against its reference on this machine."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from nerfmac.backend import choose_device, current_device, device_name
from nerfmac.backend.device import gpu
from nerfmac.backend.fallback import why_reference
from nerfmac.backend.machine import software
from nerfmac.backend.sources import kernels_folder
from nerfmac.cli.arguments import optional
from nerfmac.common import checks
from nerfmac.common.checks import InputError
from nerfmac.measure.selftest import cases
from nerfmac.measure.selftest.diagnosis import (
    Compared,
    as_text,
    compared,
    compile_for,
    print_sum,
    reach,
)
from nerfmac.measure.selftest.report import FINDINGS, SECONDS, Findings, Report, in_words
from nerfmac.measure.selftest.specialisations import write_metal


@dataclass(frozen=True)
class Arguments:
    """Compare every kernel with plain MLX operations."""

    device: Literal["all", "metal", "cuda", "cpu"] = "all"
    """Which of this machine's devices."""
    operation: Annotated[str | None, optional("NAME")] = None
    """Only the kernels of this operation (`nerfmac info` lists them)."""
    report: Annotated[Path | None, optional("FILE")] = None
    """Write everything to this JSON file too, train for a while and time the kernels: attach it to
    a bug report."""
    seconds: Annotated[float | None, optional("FLOAT")] = None
    """With --report, seconds of training on the built-in scene, on each device: 30; 0 for none."""
    dump_metal: Annotated[Path | None, optional("FOLDER")] = None
    """Instead, write the Metal text of every kernel to this folder; needs no Mac."""


def main(argv: list[str]) -> int:
    """Test as `argv` says; return 0 if everything agrees, else 1."""
    arguments = tyro.cli(Arguments, prog="nerfmac selftest", args=argv)
    if folder := arguments.dump_metal:
        if arguments != Arguments(dump_metal=folder):
            raise InputError("--dump-metal tests nothing; expected no other option with it")
        print(f"the Metal text of {len(write_metal(folder))} specialisations is in {folder}")
        return 0
    if arguments.seconds is not None:
        checks.number("seconds", arguments.seconds, low=0)
        if arguments.report is None or arguments.operation:
            raise InputError("--seconds is of a whole report; expected --report, no --operation")
    operations = sorted(path.stem for path in kernels_folder().glob("*.metal"))
    if arguments.operation:
        checks.choice("operation", arguments.operation, operations)
        operations = [arguments.operation]
    devices = _testable(arguments.device, operations)
    report = Report(arguments.report)
    versions = software().items()
    print(", ".join(f"{name.removesuffix('_version')} {value}" for name, value in versions))
    try:
        for device in devices:
            choose_device(device)
            seconds = SECONDS if arguments.seconds is None else arguments.seconds
            _test(report, arguments.operation, seconds)
        report.end()
    except KeyboardInterrupt as interruption:
        if not report.path:
            raise
        report.save()  # the interrupt may have come while it was being written
        said = f"what was found so far is in {report.path}"
        raise KeyboardInterrupt(said) from interruption
    if report.path:
        print(f"everything is in {report.path}")
    elif not report.passed:
        print("to report this, attach the file that `nerfmac selftest --report FILE` writes")
    return 0 if report.passed else 1


def _testable(wanted: str, operations: list[str]) -> list[str]:
    """The devices that run all `operations` as kernels; refuse if there are none."""
    devices = list(filter(None, (gpu(), "cpu"))) if wanted == "all" else [wanted]
    testable, reasons = [], []
    for device in devices:
        choose_device(device)
        reason = next(filter(None, map(why_reference, operations)), None)
        if reason:
            reasons.append(f"there are no kernels to test on {device}: {reason}")
        else:
            testable.append(device)
    if not testable:
        raise InputError(reasons[0])
    for reason in reasons:
        print(f"nerfmac: {reason}", file=sys.stderr)
    return testable


def _test(report: Report, operation: str | None, seconds: float) -> None:
    """Compare and time on the current device; print and report what comes of it.

    A whole report has `seconds` of training too.
    """
    print(f"{current_device()}: {device_name()}")
    report.begin_device()
    chosen = [case for case in cases() if operation in (None, case.operation)]
    print(
        f"  {len(chosen)} cases, each a computation by kernels and by their reference", flush=True
    )
    report.begin("compiling")
    compile_for(chosen)
    done: list[Compared] = []
    for case in chosen:
        report.begin(str(case))
        outcome = compared(case)
        report.add("cases", outcome.to_json(), passed=outcome.passed)
        print(outcome.line({each.fault for each in done}), flush=True)
        done.append(outcome)
    if current_device() == "metal" and operation is None:
        ran, not_run = reach(done)
        print(f"  {len(ran)} of {len(ran) + len(not_run)} reachable specialisations ran")
        for name in not_run:
            report.add("not_run", name, passed=False)
            print(f"    NOT RUN: {name}")
    if report.path and operation is None and seconds > 0 and not any(each.fault for each in done):
        _find(report, seconds)
    report.begin(None)
    print_sum(done)


def _find(report: Report, seconds: float) -> None:
    """Find out how fast the machine is, which variants are quickest, and how well it learns."""
    print(f"  the machine, with {seconds:g} s of training on the built-in scene")
    findings = Findings(seconds)
    for finding in FINDINGS:
        if finding == "watchdog" and current_device() == "cpu":
            continue
        report.begin(finding)
        try:
            values = findings.find(finding)
        except Exception as error:
            report.add(finding, {"fault": as_text(error)}, passed=False)
            print(f"    {finding} FAILS: {as_text(error)}")
            return
        report.add(finding, values)
        print(f"    {finding:12}{in_words(finding, values)}", flush=True)
