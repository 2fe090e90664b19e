"""`nerfmac selftest`: compare every kernel with its reference implementation on this machine."""

from __future__ import annotations

import sys

from nerfmac.app.cli.options import Selftest
from nerfmac.app.measure.selftest import cases
from nerfmac.app.measure.selftest.comparison import (
    HEADING,
    Compared,
    as_text,
    compared,
    compile_for,
    launched_and_missed,
    print_sum,
)
from nerfmac.app.measure.selftest.report import FINDINGS, SECONDS, Findings, Report, in_words
from nerfmac.app.measure.selftest.specializations import write_metal
from nerfmac.backend import choose_device, current_device, device_name
from nerfmac.backend.device import gpu
from nerfmac.backend.fallback import why_reference
from nerfmac.backend.machine import software
from nerfmac.backend.sources import operations
from nerfmac.common import checks
from nerfmac.common.checks import InputError


def main(arguments: Selftest) -> int:
    """Run `nerfmac selftest` and return the exit code, 0 if all kernels match their references."""
    if folder := arguments.dump_metal:
        if arguments != Selftest(dump_metal=folder):
            raise InputError("--dump-metal cannot be used with other options; remove these options")
        count = len(write_metal(folder))
        print(f"wrote the Metal source code of {count} specializations to {folder}")
        return 0
    if arguments.seconds is not None:
        checks.number("seconds", arguments.seconds, low=0)
        if arguments.report is None or arguments.operation:
            raise InputError("--seconds requires --report, and cannot be used with --operation")
    tested = operations()
    if arguments.operation:
        checks.choice("operation", arguments.operation, tested)
        tested = (arguments.operation,)
    devices = _testable(arguments.device, tested)
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
        report.save()  # The interruption may have happened during a write.
        message = f"the results so far are in {report.path}"
        raise KeyboardInterrupt(message) from interruption
    if report.path:
        print(f"wrote the report to {report.path}")
    elif not report.passed:
        print("to report this, run `nerfmac selftest --report FILE` and attach the file")
    return 0 if report.passed else 1


def _testable(wanted: str, tested: tuple[str, ...]) -> list[str]:
    """Return the devices that can run all operations in `tested` as kernels. A Mac does not need
    CPU kernels, so its CPU is skipped silently if they cannot be built."""
    devices = list(filter(None, (gpu(), "cpu"))) if wanted == "all" else [wanted]
    testable: list[str] = []
    reasons = []
    for device in devices:
        choose_device(device)
        if device == "cpu" and testable == ["metal"] and why_reference(builds=False):
            continue
        reason = next(filter(None, map(why_reference, tested)), None)
        if reason:
            reasons.append(f"no kernels to test on {device}: {reason}")
        else:
            testable.append(device)
    if not testable:
        raise InputError(reasons[0])
    for reason in reasons:
        print(f"nerfmac: {reason}", file=sys.stderr)
    return testable


def _test(report: Report, operation: str | None, seconds: float) -> None:
    """Run all test cases on the current device, print the results, and add them to the report.
    Unless `operation` is given, also train a run for `seconds` and measure the `FINDINGS`."""
    print(f"{current_device()}: {device_name()}")
    report.begin_device()
    chosen = [case for case in cases() if operation in (None, case.operation)]
    print(f"  {len(chosen)} cases, each computed by kernels and by the reference\n{HEADING}")
    report.begin("compiling")
    compile_for(chosen)
    done: list[Compared] = []
    for case in chosen:
        report.begin(str(case))
        outcome = compared(case)
        report.add("cases", outcome.to_json(), passed=outcome.passed)
        print(outcome.line({earlier.fault for earlier in done}), flush=True)
        done.append(outcome)
    if current_device() == "metal" and operation is None:
        ran, not_run = launched_and_missed(done)
        print(f"  {len(ran)} of {len(ran) + len(not_run)} reachable specializations ran")
        for name in not_run:
            report.add("not_run", name, passed=False)
            print(f"    NOT RUN: {name}")
    if report.path and operation is None and seconds > 0 and not any(case.fault for case in done):
        _find(report, seconds)
    report.begin(None)
    print_sum(done)


def _find(report: Report, seconds: float) -> None:
    """Measure the `FINDINGS` until one fails, print them, and add them to the report."""
    print(f"  measurements, with {seconds:g} s of training on the built-in scene")
    findings = Findings(seconds)
    for finding in FINDINGS:
        if finding == "watchdog" and current_device() == "cpu":
            continue  # A CPU has no display that could be delayed.
        report.begin(finding)
        try:
            values = findings.find(finding)
        except Exception as error:
            report.add(finding, {"fault": as_text(error)}, passed=False)
            print(f"    {finding} FAILS: {as_text(error)}")
            return
        report.add(finding, values)
        print(f"    {finding:12}{in_words(finding, values)}", flush=True)
