"""The diagnosis of one device: every case compared, every kernel timed.

An exception, such as a compiler's that refuses a kernel, is a finding like any other: it is kept,
and the rest goes on. A kernel's traffic is the least number of bytes that it moves (`Work.cached`).
Traffic over time is the achieved bandwidth. Caches may lift it above the memory's bandwidth, and it
is far below that if the kernel waits for something else.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from nerfmac.backend import compile_ahead, current_device, device_name, kernel, kernels_disabled
from nerfmac.backend.build import BuildError
from nerfmac.backend.fallback import why_reference
from nerfmac.backend.metal_text import exported
from nerfmac.checks import InputError
from nerfmac.config import Config
from nerfmac.measure.bench.operations import computations
from nerfmac.measure.launches import Build, Launched, launches
from nerfmac.measure.selftest.comparison import Case, Outcome, compare
from nerfmac.measure.selftest.specialisations import specialisations
from nerfmac.measure.timing import Timing, measure

_MORE_THAN_ANY = 2048  # threads; Metal has no larger groups than 1024
_SAID = re.compile(r"maximum allowed threads per threadgroup \((?P<threads>\d+)\)")


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


@dataclass(frozen=True)
class Timed:
    """The time of one launch of a computation, at the size of a training step."""

    computation: str
    number: int  # of the launch within the computation, from 1
    launched: Launched
    timing: Timing  # an accumulating kernel's includes setting its outputs to zero

    @property
    def bandwidth(self) -> float:
        """Traffic over the median time, 10^9 bytes a second."""
        return self.launched.work.cached / self.timing.median / 1e6

    def __str__(self) -> str:
        name = f"{self.computation}, launch {self.number}"
        median, low, high, _ = self.timing
        spread = f"({low:.2f} to {high:.2f})"
        return f"  {name:48}{median:8.2f} ms {spread:>18}{self.bandwidth:8.1f} GB/s"

    def to_json(self) -> dict[str, Any]:
        """The record as JSON values; operations are null where `Work` does not count them."""
        launched, operations = self.launched, self.launched.work.operations or None
        is_metal = current_device() == "metal"
        name = exported(launched.build, launched.call).specialisation if is_metal else None
        return {
            "computation": self.computation,
            "launch": self.number,
            "specialisation": name,
            "milliseconds": self.timing._asdict(),
            "function": launched.name,
            "bytes": launched.work.cached,
            "gigabytes_per_second": self.bandwidth,
            "operations": operations,
            "gigaflops": operations / self.timing.median / 1e6 if operations else None,
            "float_atomics": launched.work.atomics,
            "most_threads": most_threads(launched),
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


def timed(config: Config, operation: str | None = None, seconds: float = 0.2) -> Iterator[Timed]:
    """Time each different launch of an operation (of all, for None), about `seconds` each.

    The launches are those of a training step with `config`, with its inputs' sizes. The inputs are
    made by references, not by kernels, which may have a fault.
    """
    seen: set[tuple[Build, str]] = set()
    remaining = computations(config)
    while True:
        with kernels_disabled():
            if (following := next(remaining, None)) is None:
                return
        computation, compute = following
        if operation and computation.split()[0] != operation:
            continue
        for number, launched in enumerate(launches(compute), start=1):
            if (what := (launched.build, _sizes(launched))) not in seen:
                seen.add(what)
                mx.eval(launched.call["inputs"])
                timing = measure(launched.again, seconds=seconds)
                yield Timed(computation, number, launched, timing)


def _sizes(launched: Launched) -> str:
    call = launched.call
    inputs = [(each.shape, each.dtype) for each in call["inputs"]]
    return repr((inputs, call["template"], call["grid"], call["output_shapes"]))


def most_threads(launched: Launched) -> int | None:
    """The most threads of a threadgroup that this launch's kernel allows, by its registers.

    MLX tells it on Metal alone, in the error by which it refuses a larger group
    (mlx/backend/metal/custom_kernel.cpp). None where it does not tell it.
    """
    if current_device() != "metal":
        return None
    try:
        mx.eval(launched.build(**{**launched.call, "threadgroup": (_MORE_THAN_ANY, 1, 1)}))
    except (ValueError, RuntimeError) as error:
        said = _SAID.search(str(error))
        return int(said["threads"]) if said else None
    return None
