"""Test cases, and comparison of kernels with their references on the current device. An exception,
for example a compiler error, is recorded as the fault of its test case."""

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np

from nerfmac.app.measure.launches import Build
from nerfmac.backend import Arrays, compiled_ahead, current_device, device_name, kernel, using
from nerfmac.backend.build import BuildError, compiler_version
from nerfmac.backend.fallback import kernels_disabled, runs_kernel, why_reference, working_dtype
from nerfmac.backend.machine import software
from nerfmac.backend.metal_text import exported
from nerfmac.common import InputError, write_json

Function = Callable[..., mx.array | Sequence[mx.array]]
"""Type of a function that accepts arrays and returns one or more arrays."""
ROUNDOFF, HALF_ROUNDOFF = 2.0**-24, 2.0**-11  # Unit roundoff of float32 and of float16.


@dataclass(frozen=True)
class Case:
    """Test case of an operation: `run` computes named arrays, with kernels or with references."""

    operation: str
    name: str
    run: Callable[[], Arrays]
    terms: int  # approximate number of rounding errors that add up in one output
    outliers: float = 0.0  # fraction of entries to ignore, for discontinuous functions
    half_terms: int = 0  # `terms` if the computation is in float16

    @property
    def tolerance(self) -> float:
        """Maximum relative error, `norm(result - reference) / norm(reference)`, that rounding can
        cause."""
        if self.half_terms and working_dtype() == mx.float16:
            return 8 * HALF_ROUNDOFF * self.half_terms
        return 8 * ROUNDOFF * self.terms

    def __str__(self) -> str:
        return f"{self.operation}-{self.name}"


def in_variant(case: Case, name: str, chosen: str) -> Case:
    """Return a copy of a test case that uses the variant `chosen` of the operation `name`."""

    def run() -> Arrays:
        with using(**{name: chosen}):
            return case.run()

    return replace(case, name=f"{chosen}-{case.name}", run=run)


class Outcome(NamedTuple):
    """Comparison of one result array of a test case with its reference."""

    array: str
    error: float  # relative to the reference; infinite for NaN or a wrong shape, type, or integer
    passed: bool


def compare(case: Case) -> list[Outcome]:
    """Run a case with kernels and with references, and compare each array."""
    got = case.run()
    mx.eval(got)
    with kernels_disabled():
        want = case.run()
        mx.eval(want)
    outcomes = []
    for name, expected in want.items():
        error = _error(np.array(got[name]), np.array(expected), case.outliers)
        outcomes.append(Outcome(name, error, error <= case.tolerance))
    return outcomes


def _error(got: np.ndarray, want: np.ndarray, outliers: float) -> float:
    if got.shape != want.shape or got.dtype != want.dtype:
        return math.inf
    if not np.issubdtype(want.dtype, np.floating):
        return 0.0 if np.count_nonzero(got != want) <= outliers * want.size else math.inf
    if not np.isfinite(got).all():
        return math.inf
    difference = np.abs(got.astype(np.float64) - want).ravel()
    kept = np.argsort(difference, kind="stable")[: difference.size - int(outliers * want.size)]
    length = float(np.linalg.norm(want.astype(np.float64).ravel()[kept]))
    distance = float(np.linalg.norm(difference[kept]))
    if distance == 0.0:
        return 0.0
    return distance / length if length > 0 else math.inf


def case_of(
    operation: str,
    name: str,
    kernel: Function,
    reference: Function,
    inputs: Arrays,
    *,
    terms: int,
    outliers: float = 0.0,
) -> Case:
    """Create a test case that compares the results and the gradients of two functions.

    Args:
        operation: Name of the operation.
        name: Name of the test case.
        kernel: Function that runs the kernel. It returns one or more float32 arrays that are
            differentiable with respect to every input.
        reference: Function with the same results that does not use the kernel.
        inputs: Arguments of both functions, in order.
        terms: Approximate number of rounding errors that add up in one output.
        outliers: Fraction of the entries to ignore, beginning with the largest errors, for
            discontinuous functions, in which a rounding error may cause a jump.
    """

    def run() -> Arrays:
        return with_gradients(kernel if runs_kernel(operation) else reference, **inputs)

    return Case(operation, name, run, terms, outliers)


def with_gradients(function: Function, **arguments: mx.array) -> Arrays:
    """Return the results of a function, and the gradients of a fixed random linear combination of
    the results with respect to each argument."""

    def listed(*values: mx.array) -> list[mx.array]:
        result = function(*values)
        return [result] if isinstance(result, mx.array) else list(result)

    results = listed(*arguments.values())
    keys = mx.random.split(mx.random.key(7), len(results))
    weights = [mx.random.normal(r.shape, key=k) for r, k in zip(results, keys, strict=True)]

    def combined(*values: mx.array) -> mx.array:
        outputs = zip(listed(*values), weights, strict=True)
        return mx.sum(mx.stack([mx.sum(output * weight) for output, weight in outputs]))

    _, gradients = mx.vjp(combined, list(arguments.values()), [mx.array(1.0)])
    named = {f"result {i}": result for i, result in enumerate(results)}
    named |= {f"d {name}": d for name, d in zip(arguments, gradients, strict=True)}
    return named


HEADING = f"  {'case':36} {'error':>10}  {'tolerance':>9}"
"""Heading of the printed table. The table has one line for each `Compared`. The column `error`
contains the largest relative error of the arrays."""


@dataclass(frozen=True)
class Compared:
    """Result of a test case: the comparison of its arrays, or its exception."""

    case: Case
    outcomes: list[Outcome]  # empty after an exception
    fault: str | None  # the exception
    launched: list[str]  # specializations of kernels, in order; recorded on Metal only

    @property
    def differing(self) -> list[str]:
        """Names of the arrays that disagree with the reference."""
        return [outcome.array for outcome in self.outcomes if not outcome.passed]

    @property
    def passed(self) -> bool:
        """Whether the case ran and all arrays agree."""
        return self.fault is None and not self.differing

    def line(self, faults: Collection[str | None]) -> str:
        """Return the line to print. A fault in `faults` was already printed and is abbreviated."""
        if self.fault:
            fault = "as above" if self.fault in faults else self.fault
            return f"  {self.case!s:36} FAILS: {fault}"
        worst = max(outcome.error for outcome in self.outcomes)
        verdict = f"DIFFERS: {', '.join(self.differing)}" if self.differing else "ok"
        return f"  {self.case!s:36} {worst:10.1e}  {self.case.tolerance:9.1e}  {verdict}"

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON values. Infinite errors become null."""
        errors = [each.error if math.isfinite(each.error) else None for each in self.outcomes]
        arrays = zip(self.outcomes, errors, strict=True)
        return {
            "case": str(self.case),
            "passed": self.passed,
            "tolerance": self.case.tolerance,
            "arrays": [{**outcome._asdict(), "error": error} for outcome, error in arrays],
            "fault": self.fault,
            "specializations": self.launched,
        }


class Report:
    """Results of a self-test on one or more devices, as a JSON file to attach to a bug report.

    The file is written before and after each test case. After a crash, it is therefore valid JSON
    with the earlier results and the name of the test case that crashed.
    """

    def __init__(self, path: Path | None) -> None:
        """Write an empty report to a JSON file, or store the results only in memory if `path` is
        None."""
        self.path = path
        self.values: dict[str, Any] = {"complete": False, **software(), "devices": []}
        self.save()

    @property
    def passed(self) -> bool:
        """Whether every device has passed."""
        return all(device["passed"] for device in self.values["devices"])

    def begin_device(self) -> None:
        """Add an empty entry for the current device. Later results are recorded in this entry."""
        if current_device() == "cpu":
            details: dict[str, Any] = {"compiler": compiler_version()}
        else:
            info = mx.device_info().items()
            details = {name: v if isinstance(v, int) else str(v) for name, v in info}
        self._device: dict[str, Any] = {
            "device": current_device(),
            "device_name": device_name(),
            "details": details,
            "passed": True,
            "running": None,  # the case in progress
            "cases": 0,  # number of finished cases
            "arrays": 0,  # number of compared arrays
            "failed": [],  # `Compared.to_json` of each case that failed
            "not_run": [],  # specializations that no case launched
        }
        self.values["devices"].append(self._device)

    def begin(self, what: str | None) -> None:
        """Record the test case that starts now, or None after the device's last test case."""
        self._device["running"] = what
        self.save()

    def add(self, outcome: Compared) -> None:
        """Record the result of a test case."""
        self._device["cases"] += 1
        self._device["arrays"] += len(outcome.outcomes)
        if not outcome.passed:
            self._device["failed"].append(outcome.to_json())
            self._device["passed"] = False
        self.save()

    def add_not_run(self, specializations: Sequence[str]) -> None:
        """Record the names of the reachable specializations that no test case launched."""
        self._device["not_run"] += specializations
        self._device["passed"] &= not specializations
        self.save()

    def end(self) -> None:
        """Mark the report as complete."""
        self.values["complete"] = True
        self.save()

    def save(self) -> None:
        """Write the results so far."""
        if self.path:
            write_json(self.path, self.values)


def compile_for(cases: Iterable[Case]) -> None:
    """Compile the kernels of test cases in parallel, and ignore compiler errors. If `cases` is a
    generator, the kernels that compute the inputs are also compiled."""
    with suppress(BuildError), compiled_ahead():
        for case in cases:
            with suppress(Exception):  # `compared` raises the exception again and records it
                case.run()


def compared(case: Case) -> Compared:
    """Run a test case and compare its arrays, or record an exception as its fault."""
    launched: list[str] = []

    def launch(build: Build, **call: Any) -> list[mx.array]:
        launched.append(exported(build, call).specialization)
        return build(**call)

    with ExitStack() as stack:
        if current_device() == "metal":
            stack.enter_context(kernel.launched_by(launch))
        try:
            outcomes, fault = compare(case), None
        except Exception as error:
            outcomes, fault = [], f"{type(error).__name__}: {error}"
    return Compared(case, outcomes, fault, list(dict.fromkeys(launched)))


def compare_all(cases: Iterable[Case], report: Report | None = None) -> list[Compared]:
    """Run test cases on this device, print a table, and add the results to a report. Kernels agree
    if all results passed."""
    cases, device = list(cases), current_device()
    for case in cases:
        if reason := why_reference(case.operation):
            raise InputError(f"no kernel of {case.operation} runs on {device}: {reason}")
    print(f"{device}: {device_name()}")
    print(f"  {len(cases)} cases, each computed by kernels and by the reference\n{HEADING}")
    report = report or Report(None)
    report.begin_device()
    report.begin("compiling")
    compile_for(cases)
    done: list[Compared] = []
    for case in cases:
        report.begin(str(case))
        outcome = compared(case)
        report.add(outcome)
        print(outcome.line({earlier.fault for earlier in done}), flush=True)
        done.append(outcome)
    report.begin(None)
    outcomes = [outcome for each in done for outcome in each.outcomes]
    agreed = sum(outcome.passed for outcome in outcomes)
    print(f"{device}: {agreed} of {len(outcomes)} arrays agree with their references")
    if faults := sum(each.fault is not None for each in done):
        print(f"{device}: {faults} of {len(done)} cases FAIL")
    return done
