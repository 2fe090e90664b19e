"""The selftest's table: a line for each case, and at the end how many arrays agreed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from nerfmac.backend import current_device, device_name
from nerfmac.backend.fallback import why_reference
from nerfmac.checks import InputError
from nerfmac.measure.selftest.comparison import Case
from nerfmac.measure.selftest.diagnosis import Compared, compared


def compare_all(cases: Iterable[Case]) -> list[Compared]:
    """Compare each of the `cases` on the current device, and print the table.

    Everything agrees if `all(case.passed for case in compare_all(...))`. Raises `InputError` where
    kernels do not run, so that there is nothing to compare.
    """
    print(f"{current_device()}: {device_name()}")
    done: list[Compared] = []
    for case in cases:
        if reason := why_reference(case.operation):
            raise InputError(f"no kernel of {case.operation} runs on {current_device()}: {reason}")
        outcome = compared(case)
        print_case(outcome, {each.fault for each in done})
        done.append(outcome)
    print_sum(done)
    return done


def print_case(outcome: Compared, faults: Collection[str | None]) -> None:
    """Print the line of a case; a fault that is among `faults`, printed before, is not repeated."""
    case = outcome.case
    if outcome.fault:
        text = "as above" if outcome.fault in faults else outcome.fault
        print(f"  {case!s:36} FAILS: {text}", flush=True)
        return
    worst = max(each.error for each in outcome.outcomes)
    verdict = f"DIFFERS: {', '.join(outcome.differing)}" if outcome.differing else "ok"
    print(f"  {case!s:36} error {worst:8.1e}  of {case.tolerance:.1e}  {verdict}", flush=True)


def print_sum(done: Sequence[Compared]) -> None:
    """Print how many arrays agreed with the reference, and how many cases failed altogether."""
    arrays = [outcome for each in done for outcome in each.outcomes]
    agreed = sum(outcome.passed for outcome in arrays)
    faults = sum(each.fault is not None for each in done)
    print(f"{current_device()}: {agreed} of {len(arrays)} arrays agree with their references")
    if faults:
        print(f"{current_device()}: {faults} of {len(done)} cases FAIL")
