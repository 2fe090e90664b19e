"""The self-test's cases with every launch going to the executor: which are run, and what comes out.

Each runs once, in one of several processes of their own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from math import prod
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import mlx.core as mx

from nerfmac.backend import choose_device
from nerfmac.backend.metal_text import Launch, on_metal, recorded
from nerfmac.selftest import Case, Outcome, cases, compare
from nerfmac.selftest.specialisations import specialisations
from tests.metal.execute import ExecutionError, Executor, parameters

_LARGE = 2**22  # bytes that a case's launches may write before it is left out, where others do


class Run(NamedTuple):
    """What came out of a case."""

    case: str
    launched: set[str]  # specialisations
    unwritten: set[str]  # functions that left elements of an output without a value
    inputs: set[tuple[bool, bool]]  # whether an input has fewer than 8 elements; is `constant`
    outcomes: list[Outcome]
    tolerance: float
    error: str  # of an execution that broke a rule of Metal's


def function(launch: Launch) -> str:
    """The kernel's function, as kernels/*.metal names it."""
    match = re.search(r"(\w+)(?:<[\w, ]*>)?\(thread_position_in_grid,", launch.text)
    assert match
    return match[1]


@cache
def launches_of_cases() -> dict[str, list[Launch]]:
    """What each case launches."""
    found = {}
    for name, case in _cases().items():
        with recorded() as launches:
            case.run()
        found[name] = list(launches.values())
    return found


@cache
def covering() -> dict[str, list[str]]:
    """For each specialisation that can be reached or tested, the cases to run; small ones first."""
    cover: dict[str, list[str]] = {name: [] for name in specialisations()}
    sizes = {case: sum(map(_written, each)) for case, each in launches_of_cases().items()}
    for case in sorted(sizes, key=sizes.__getitem__):
        names = [launch.specialisation for launch in launches_of_cases()[case]]
        if sizes[case] <= _LARGE or not all(cover.get(name) for name in names):
            for name in names:
                cover.setdefault(name, []).append(case)
    return cover


def chosen() -> list[str]:
    """The cases to run, in the order in which specialisations ask for them."""
    return list(dict.fromkeys(case for some in covering().values() for case in some))


class Runs:
    """Runs the chosen cases, as many at a time as there are processors."""

    def __init__(self, executor: Executor) -> None:
        executor.compile(launch.text for case in chosen() for launch in launches_of_cases()[case])
        # Python's own way of forking a process does not go with MLX's threads.
        self._pool = ProcessPoolExecutor(os.cpu_count(), get_context("spawn"))
        self._runs = {case: self._pool.submit(run, case, executor.folder) for case in chosen()}

    def __getitem__(self, case: str) -> Run:
        return self._runs[case].result()

    def close(self) -> None:
        """End, without what has not begun."""
        self._pool.shutdown(cancel_futures=True)


def run(name: str, folder: Path) -> Run:
    """Compare the case of that name with its reference, in this process."""
    choose_device("cpu")
    executor = Executor(folder)
    case = _cases()[name]
    found = Run(name, set(), set(), set(), [], 0.0, "")

    def execute(launch: Launch, inputs: Sequence[mx.array]) -> list[mx.array]:
        outputs = executor(launch, inputs)
        found.launched.add(launch.specialisation)
        found.inputs.update(_inputs(launch, inputs))
        if any(executor.unwritten.values()):
            found.unwritten.add(function(launch))
        return outputs

    try:
        with on_metal(execute):
            return found._replace(outcomes=compare(case), tolerance=case.tolerance)
    except ExecutionError as error:
        return found._replace(error=str(error))
    finally:
        mx.enable_compile()


@cache
def _cases() -> dict[str, Case]:
    return {str(case): case for case in cases()}


def _written(launch: Launch) -> int:
    sizes = zip(launch.output_shapes, launch.output_dtypes, strict=True)
    return sum(prod(shape) * dtype.size for shape, dtype in sizes)


def _inputs(launch: Launch, inputs: Sequence[mx.array]) -> Iterator[tuple[bool, bool]]:
    types = {parameter.name: parameter.type for parameter in parameters(launch.text)}
    given = [name for name in types if not name.endswith(("_shape", "_strides", "_ndim"))]
    for name, array in zip(given, inputs, strict=False):  # outputs follow
        yield array.size < 8, "constant" in types[name].split()
