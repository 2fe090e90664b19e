"""The self-test's cases, each once in a separate process, with every launch in the executor."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import mlx.core as mx

from nerfmac.app.measure.selftest import Outcome, compare
from nerfmac.backend import choose_device
from nerfmac.backend.metal_text import Launch, on_metal
from tests.chosen_cases import all_cases, function, launches_of_cases
from tests.metal.execute import ExecutionError, Executor


class Run(NamedTuple):
    case: str
    launched: set[str]  # specializations
    unwritten: set[str]  # functions that left elements of an output without a value
    outcomes: list[Outcome]
    tolerance: float
    error: str  # of an execution that broke a rule of Metal's


class Runs:
    """Runs cases in parallel, one per processor; `options` are passed to `Executor`."""

    def __init__(self, executor: Executor, cases: Sequence[str], **options: Any) -> None:
        executor.compile(launch.text for case in cases for launch in launches_of_cases()[case])
        # Python's own way of forking a process does not go with MLX's threads.
        self._pool = ProcessPoolExecutor(os.cpu_count(), get_context("spawn"))
        self._runs = {
            case: self._pool.submit(run, case, executor.folder, **options) for case in cases
        }

    def __getitem__(self, case: str) -> Run:
        return self._runs[case].result()

    def close(self) -> None:
        """Stop without starting the remaining cases."""
        self._pool.shutdown(cancel_futures=True)


def run(name: str, folder: Path, **executors: Any) -> Run:
    """Compare the case of that name with its reference, in this process."""
    choose_device("cpu")
    executor = Executor(folder, **executors)
    case = all_cases()[name]
    found = Run(name, set(), set(), [], 0.0, "")

    def execute(launch: Launch, inputs: Sequence[mx.array]) -> list[mx.array]:
        outputs = executor(launch, inputs)
        found.launched.add(launch.specialization)
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
