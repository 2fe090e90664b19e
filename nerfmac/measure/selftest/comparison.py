"""Test cases, and the comparison of a kernel's results with its reference's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import mlx.core as mx
import numpy as np

from nerfmac.backend import Arrays as Arrays
from nerfmac.backend import kernels_disabled, runs_kernel, using, working_dtype

Function = Callable[..., mx.array | Sequence[mx.array]]
"""A function of arrays that returns one array or several."""
ROUNDOFF, HALF_ROUNDOFF = 2.0**-24, 2.0**-11
"""Unit roundoff of float32 and of float16."""


@dataclass(frozen=True)
class Case:
    """A comparison of kernel and reference; `run` computes named arrays on the current back end."""

    operation: str
    name: str
    run: Callable[[], Arrays]
    terms: int  # approximate number of roundings that add up in one output
    outliers: float = 0.0  # fraction of entries to ignore, for functions that jump
    half_terms: int = 0  # `terms` if the computation is in float16

    @property
    def tolerance(self) -> float:
        """Largest relative error |got - want| / |want| of an array that rounding explains."""
        if self.half_terms and working_dtype() == mx.float16:
            return 8 * HALF_ROUNDOFF * self.half_terms
        return 8 * ROUNDOFF * self.terms

    def __str__(self) -> str:
        return f"{self.operation}-{self.name}"


def in_variant(case: Case, name: str, chosen: str) -> Case:
    """The `case` with the variant `chosen` of the operation `name` (`nerfmac.backend.variants`)."""

    def run() -> Arrays:
        with using(**{name: chosen}):
            return case.run()

    return replace(case, name=f"{chosen}-{case.name}", run=run)


class Outcome(NamedTuple):
    """The comparison of one array of a case."""

    array: str
    error: float  # |got - want| / |want|; infinite if a result is not finite
    passed: bool


def compare(case: Case) -> list[Outcome]:
    """Run `case` with kernels and with references; compare each array."""
    got = case.run()
    mx.eval(got)
    with kernels_disabled():
        want = case.run()
        mx.eval(want)
    return agreement(case, got, want)


def agreement(case: Case, got: Arrays, want: Arrays) -> list[Outcome]:
    """The comparison of each array of `got` with the array of `want` of the same name."""
    outcomes = []
    for name, expected in want.items():
        error = _error(np.array(got[name]), np.array(expected), case.outliers)
        outcomes.append(Outcome(name, error, error <= case.tolerance))
    return outcomes


def _error(got: np.ndarray, want: np.ndarray, outliers: float) -> float:
    if got.shape != want.shape or got.dtype != want.dtype:
        return float("inf")
    if not np.issubdtype(want.dtype, np.floating):
        wrong = np.count_nonzero(got != want)
        return 0.0 if wrong <= outliers * want.size else float("inf")
    if not np.isfinite(got).all():
        return float("inf")
    difference = np.abs(got.astype(np.float64) - want).ravel()
    kept = np.argsort(difference, kind="stable")[: difference.size - int(outliers * want.size)]
    length = np.linalg.norm(want.astype(np.float64).ravel()[kept])
    distance = float(np.linalg.norm(difference[kept]))
    if distance == 0.0:
        return 0.0
    return distance / float(length) if length > 0 else float("inf")


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
    """A case that compares results and gradients of `kernel` and `reference`.

    Both are called with the arrays of `inputs`, in order. They return one or several float32 arrays
    that are differentiable in every input. `terms` is the approximate number of roundings that add
    up in one output. `outliers` is the fraction of an array's entries, those with the largest
    errors, to ignore: use it for functions that jump, where rounding decides on the side.
    """

    def run() -> Arrays:
        function = kernel if runs_kernel(operation) else reference

        def results(*arrays: mx.array) -> list[mx.array]:
            result = function(*arrays)
            return [result] if isinstance(result, mx.array) else list(result)

        return with_gradients(results, **inputs)

    return Case(operation, name, run, terms, outliers)


def with_gradients(function: Callable[..., list[mx.array]], **arguments: mx.array) -> Arrays:
    """Results of `function`, and for each argument the gradient of a random sum of the results."""
    results = function(*arguments.values())
    keys = mx.random.split(mx.random.key(7), len(results))
    weights = [mx.random.normal(r.shape, key=k) for r, k in zip(results, keys, strict=True)]

    def combined(*values: mx.array) -> mx.array:
        outputs = function(*values)
        return mx.sum(mx.stack([mx.sum(o * w) for o, w in zip(outputs, weights, strict=True)]))

    _, gradients = mx.vjp(combined, list(arguments.values()), [mx.array(1.0)])
    named = {f"result {i}": result for i, result in enumerate(results)}
    named |= {f"d {name}": d for name, d in zip(arguments, gradients, strict=True)}
    return named
