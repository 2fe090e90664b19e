"""The diagnosis of one device: every case compared, every kernel timed.

An exception, such as a compiler's that refuses a kernel, is a finding like any other: it is kept,
and the rest goes on. A kernel's traffic is the least number of bytes that it moves: each input is
read once and each output written once, or twice if the kernel adds to it. Traffic over time is the
achieved bandwidth. Caches may lift it above the memory's bandwidth, and it is far below that if the
kernel waits for something else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import mlx.core as mx

from nerfmac.backend import compile_ahead, current_device, kernel, kernels_disabled
from nerfmac.backend.build import BuildError
from nerfmac.backend.metal_text import exported
from nerfmac.config import Config
from nerfmac.measure.bench import (
    Build,
    Call,
    Sizes,
    Timing,
    computations,
    launches,
    measure,
    step_work,
)
from nerfmac.measure.selftest.comparison import Case, Outcome, compare
from nerfmac.measure.selftest.specialisations import specialisations
from nerfmac.measure.selftest.threads import most_threads

_COUNTED = (
    *("hash_encode_forward", "hash_encode_table_gradient"),
    *("networks_forward", "networks_gradient", "composite_forward", "composite_gradient"),
)


@dataclass(frozen=True)
class Compared:
    """The comparison of a case."""

    case: Case
    outcomes: list[Outcome]
    fault: str | None  # the exception, if there was one; then there are no outcomes
    launched: list[str]  # specialisations, in order; noted on Metal alone

    @property
    def differing(self) -> list[str]:
        """Names of the arrays that do not agree with the reference."""
        return [outcome.array for outcome in self.outcomes if not outcome.passed]

    @property
    def passed(self) -> bool:
        """Whether it ran and everything agrees."""
        return self.fault is None and not self.differing


@dataclass(frozen=True)
class Timed:
    """How long one launch of a computation takes, at the size of a training step."""

    computation: str
    number: int  # which of the computation's launches, from 1
    specialisation: str | None  # on Metal
    function: str
    traffic: int  # bytes
    operations: int | None  # floating-point ones, where the shapes say how many
    most_threads: int | None  # of a group, where MLX tells it
    timing: Timing  # an accumulating kernel's includes setting its outputs to zero

    @property
    def bandwidth(self) -> float:
        """Traffic over the median time, 10^9 bytes a second."""
        return self.traffic / self.timing.median / 1e6

    @property
    def rate(self) -> float | None:
        """Operations over the median time, 10^9 a second."""
        return self.operations / self.timing.median / 1e6 if self.operations else None

    def __str__(self) -> str:
        return f"{self.computation}, launch {self.number}"


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
    outcomes: list[Outcome] = []
    fault = None
    with _noting(launched):
        try:
            outcomes = compare(case)
        except Exception as error:
            fault = as_text(error)
    return Compared(case, outcomes, fault, list(dict.fromkeys(launched)))


def reach(comparisons: Iterable[Compared]) -> tuple[list[str], list[str]]:
    """The specialisations that a preset or an option can reach: those that ran, those that did not.

    Metal's compiler sees only kernels that are launched, so it has not seen the latter.
    """
    launched = {name for each in comparisons if not each.fault for name in each.launched}
    reachable = specialisations()
    return [n for n in reachable if n in launched], [n for n in reachable if n not in launched]


def timed(config: Config, operation: str | None = None, seconds: float = 0.2) -> Iterator[Timed]:
    """Time each different launch of an operation (of all, for None), about `seconds` each.

    The launches are those of a training step with `config`, with its inputs' sizes.
    """
    seen: set[tuple[Build, str]] = set()
    counted = _operations(config)
    for computation, compute in _computations(config):
        if operation and computation.split()[0] != operation:
            continue
        for number, launched in enumerate(launches(compute), start=1):
            build, call = launched.build, launched.call
            if (what := (build, _sizes(call))) in seen:
                continue
            seen.add(what)
            mx.eval(call["inputs"])
            timing = measure(launched.again, seconds=seconds)
            name = exported(build, call).specialisation if current_device() == "metal" else None
            yield Timed(
                computation,
                number,
                name,
                launched.name,
                launched.traffic,
                counted.get(launched.name),
                most_threads(launched),
                timing,
            )


def _operations(config: Config) -> dict[str, int]:
    """Operations of the kernels whose inputs have a step's sizes, by function."""
    sizes = Sizes.of(config, 1.0, config.train.rays, on_gpu=current_device() != "cpu")
    work = step_work(replace(sizes, candidates=0))
    return {name: work[name].operations for name in _COUNTED}


def as_text(error: Exception) -> str:
    """An exception as a report shows it."""
    return f"{type(error).__name__}: {error}"


@contextmanager
def _noting(launched: list[str]) -> Iterator[None]:
    """Within it, on Metal, append the name of each specialisation that is launched."""

    def launch(build: Build, **call: Any) -> list[mx.array]:
        launched.append(exported(build, call).specialisation)
        return build(**call)

    if current_device() != "metal":
        yield
        return
    with kernel.launched_by(launch):
        yield


def _computations(config: Config) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Like `computations`, but their inputs are made by references, not by kernels with a fault."""
    remaining = computations(config)
    while True:
        with kernels_disabled():
            following = next(remaining, None)
        if following is None:
            return
        yield following


def _sizes(call: Call) -> str:
    inputs = [(each.shape, each.dtype) for each in call["inputs"]]
    return repr((inputs, call["template"], call["grid"], call["output_shapes"]))
