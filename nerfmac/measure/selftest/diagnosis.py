"""Comparison of all cases on the current device.

An exception in a case, for example a compiler error, is recorded as its fault, and the next case
runs.
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

HEADING = f"  {'case':36} {'error':>10}  {'tolerance':>9}"
"""Heading of the lines of `Compared`: relative errors, the largest of a case's arrays."""


@dataclass(frozen=True)
class Compared:
    """The comparison of a case."""

    case: Case
    outcomes: list[Outcome]  # empty after an exception
    fault: str | None  # the exception
    launched: list[str]  # specialisations in order; recorded on Metal only

    @property
    def differing(self) -> list[str]:
        """Names of the arrays that disagree with the reference."""
        return [outcome.array for outcome in self.outcomes if not outcome.passed]

    @property
    def passed(self) -> bool:
        """Whether the case ran and all arrays agree."""
        return self.fault is None and not self.differing

    def line(self, faults: Collection[str | None]) -> str:
        """The printed line; a fault in `faults`, which was printed before, is not repeated."""
        if self.fault:
            fault = "as above" if self.fault in faults else self.fault
            return f"  {self.case!s:36} FAILS: {fault}"
        worst = max(outcome.error for outcome in self.outcomes)
        verdict = f"DIFFERS: {', '.join(self.differing)}" if self.differing else "ok"
        return f"  {self.case!s:36} {worst:10.1e}  {self.case.tolerance:9.1e}  {verdict}"

    def to_json(self) -> dict[str, Any]:
        """The record as JSON values; infinite errors are null."""
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
    """The type and message of an exception."""
    return f"{type(error).__name__}: {error}"


def compile_for(cases: Iterable[Case]) -> None:
    """Compile the kernels of the `cases` in parallel; ignore errors.

    If `cases` is a generator, the kernels that make the inputs are compiled too.
    """

    def build_graphs() -> None:
        for case in cases:
            with suppress(Exception):  # `compared` meets the exception again and records it
                case.run()

    with suppress(BuildError):
        compile_ahead(build_graphs)


def compared(case: Case) -> Compared:
    """Compare `case`; record an exception as its fault."""
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
    """Compare the `cases` on the current device and print a table.

    All arrays agree if `all(case.passed for case in compare_all(...))`. Raises `InputError` if an
    operation's kernel does not run here.
    """
    print(f"{current_device()}: {device_name()}\n{HEADING}")
    done: list[Compared] = []
    for case in cases:
        if reason := why_reference(case.operation):
            raise InputError(f"no kernel of {case.operation} runs on {current_device()}: {reason}")
        outcome = compared(case)
        print(outcome.line({earlier.fault for earlier in done}), flush=True)
        done.append(outcome)
    print_sum(done)
    return done


def print_sum(done: Sequence[Compared]) -> None:
    """Print the number of arrays that agree and of cases that failed."""
    outcomes = [outcome for case in done for outcome in case.outcomes]
    agreed = sum(outcome.passed for outcome in outcomes)
    faults = sum(case.fault is not None for case in done)
    print(f"{current_device()}: {agreed} of {len(outcomes)} arrays agree with their references")
    if faults:
        print(f"{current_device()}: {faults} of {len(done)} cases FAIL")


def launched_and_missed(done: Iterable[Compared]) -> tuple[list[str], list[str]]:
    """The reachable specialisations that ran, and those that did not.

    Metal's compiler sees only kernels that are launched, so it has not seen the latter.
    """
    launched = {name for case in done if not case.fault for name in case.launched}
    reachable = specialisations()
    return [n for n in reachable if n in launched], [n for n in reachable if n not in launched]
