"""`nerfmac selftest`: compare every kernel with its reference implementation on this machine."""

import sys

from nerfmac.app.cli.options import Selftest
from nerfmac.app.measure.selftest import cases, comparison
from nerfmac.app.measure.selftest.specializations import launched_and_missed, write_metal
from nerfmac.backend import choose_device, current_device, device_name, gpu, why_reference
from nerfmac.backend.machine import software
from nerfmac.backend.sources import operations
from nerfmac.common import InputError, checks


def main(arguments: Selftest) -> int:
    """Run `nerfmac selftest` and return the exit code, 0 if all kernels match their references."""
    if folder := arguments.dump_metal:
        if arguments != Selftest(dump_metal=folder):
            raise InputError("--dump-metal cannot be used with other options; remove these options")
        count = len(write_metal(folder))
        print(f"wrote the Metal source code of {count} specializations to {folder}")
        return 0
    tested = operations()
    if arguments.operation:
        checks.choice("operation", arguments.operation, tested)
        tested = (arguments.operation,)
    devices = _testable(arguments.device, tested)
    report = comparison.Report(arguments.report)
    versions = software().items()
    print(", ".join(f"{name.removesuffix('_version')} {value}" for name, value in versions))
    try:
        for device in devices:
            choose_device(device)
            _test(report, arguments.operation)
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


def _test(report: comparison.Report, operation: str | None) -> None:
    """Run the test cases of one operation or all operations on the current device, print the
    results, and add them to the report."""
    print(f"{current_device()}: {device_name()}")
    report.begin_device()
    chosen = [case for case in cases() if operation in (None, case.operation)]
    print(f"  {len(chosen)} cases, each computed by kernels and by the reference")
    print(comparison.HEADING)
    report.begin("compiling")
    comparison.compile_for(chosen)
    done: list[comparison.Compared] = []
    for case in chosen:
        report.begin(str(case))
        outcome = comparison.compared(case)
        report.add(outcome)
        print(outcome.line({earlier.fault for earlier in done}), flush=True)
        done.append(outcome)
    if current_device() == "metal" and operation is None:
        ran, not_run = launched_and_missed(done)
        print(f"  {len(ran)} of {len(ran) + len(not_run)} reachable specializations ran")
        report.add_not_run(not_run)
        for name in not_run:
            print(f"    NOT RUN: {name}")
    report.begin(None)
    comparison.print_sum(done)
