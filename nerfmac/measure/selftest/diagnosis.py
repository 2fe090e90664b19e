"""The comparison of every case on one device.

An exception, such as a compiler's that refuses a kernel, is a finding like any other: it is kept,
and the rest goes on.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from nerfmac.backend import compile_ahead, current_device, device_name, kernel
from nerfmac.backend.build import BuildError
from nerfmac.backend.fallback import why_reference
from nerfmac.backend.metal_text import exported
from nerfmac.common.checks import InputError
from nerfmac.measure.launches import Build
from nerfmac.measure.selftest.comparison import Case, Outcome, compare
from nerfmac.measure.selftest.specialisations import specialisations


@dataclass(frozen=True)
class Compared:
    """The comparison of a case."""

    case: Case
    outcomes: list[Outcome]
    fault: str | None  # the exception, if there was one; then there are no outcomes
    launched: list[str]  # specialisations in order; recorded on Metal alone

    @property
    def differing(self) -> list[str]:
        """Names of the arrays that do not agree with the reference."""
        return [outcome.array for outcome in self.outcomes if not outcome.passed]

    @property
    def passed(self) -> bool:
        """Whether it ran and everything agrees."""
        return self.fault is None and not self.differing

    def line(self, faults: Collection[str | None]) -> str:
        """A line for people; a fault that is among `faults`, printed before, is not repeated."""
        if self.fault:
            told = "as above" if self.fault in faults else self.fault
            return f"  {self.case!s:36} FAILS: {told}"
        worst = max(each.error for each in self.outcomes)
        verdict = f"DIFFERS: {', '.join(self.differing)}" if self.differing else "ok"
        return f"  {self.case!s:36} error {worst:8.1e}  of {self.case.tolerance:.1e}  {verdict}"

    def to_json(self) -> dict[str, Any]:
        """The record as JSON values; an error is null if a result is not finite or misshapen."""
        return {
            "case": str(self.case),
            "passed": self.passed,
            "tolerance": self.case.tolerance,
            "arrays": [
                {
                    "array": outcome.array,
                    "error": outcome.error if math.isfinite(outcome.error) else None,
                    "passed": bool(outcome.passed),
                }
                for outcome in self.outcomes
            ],
            "fault": self.fault,
            "specialisations": self.launched,
        }


def as_text(error: Exception) -> str:
    """An exception as a report shows it."""
    return f"{type(error).__name__}: {error}"


def compile_for(chosen: Iterable[Case]) -> None:
    """Compile the kernels of the `chosen` cases side by side; ignore what fails.

    Those that make the cases' inputs are among them if the cases are made as they are asked for.
    """

    def build_graphs() -> None:
        for case in chosen:
            with suppress(Exception):  # `compared` meets the exception again and keeps it
                case.run()

    with suppress(BuildError):
        compile_ahead(build_graphs)


def compared(case: Case) -> Compared:
    """Run `case` with and without kernels; keep what is raised."""
    launched: list[str] = []

    def launch(build: Build, **call: Any) -> list[mx.array]:
        launched.append(exported(build, call).specialisation)
        return build(**call)

    with ExitStack() as stack:
        if current_device() == "metal":
            stack.enter_context(kernel.launched_by(launch))
        try:
            outcomes, fault = compare(case), None
        except Exception as error:
            outcomes, fault = [], as_text(error)
    return Compared(case, outcomes, fault, list(dict.fromkeys(launched)))


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
        print(outcome.line({each.fault for each in done}), flush=True)
        done.append(outcome)
    print_sum(done)
    return done


def print_sum(done: Sequence[Compared]) -> None:
    """Print how many arrays agreed with the reference, and how many cases failed altogether."""
    arrays = [outcome for each in done for outcome in each.outcomes]
    agreed = sum(outcome.passed for outcome in arrays)
    faults = sum(each.fault is not None for each in done)
    print(f"{current_device()}: {agreed} of {len(arrays)} arrays agree with their references")
    if faults:
        print(f"{current_device()}: {faults} of {len(done)} cases FAIL")


def reach(comparisons: Iterable[Compared]) -> tuple[list[str], list[str]]:
    """The specialisations that a preset or an option can reach: those that ran, those that did not.

    Metal's compiler sees only kernels that are launched, so it has not seen the latter.
    """
    launched = {name for each in comparisons if not each.fault for name in each.launched}
    reachable = specialisations()
    return [n for n in reachable if n in launched], [n for n in reachable if n not in launched]
