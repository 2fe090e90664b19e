"""A case, and how what a kernel gives is compared with what its reference gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import mlx.core as mx
import numpy as np

from nerfmac.backend import kernels_disabled, working_dtype

Arrays = dict[str, mx.array]

ROUNDOFF = 2.0**-24
"""Of float32."""

HALF_ROUNDOFF = 2.0**-11
"""Of float16."""


@dataclass(frozen=True)
class Case:
    """One comparison; `run` computes named arrays by whatever back end is on."""

    operation: str
    name: str
    run: Callable[[], Arrays]
    terms: int  # roundings that add up in one output, about
    outliers: float = 0.0  # share of entries left out: those where rounding decides a jump
    half_terms: int = 0  # the same as terms, where half precision is worked in

    @property
    def tolerance(self) -> float:
        """Relative error of a whole array, as a vector, that rounding alone explains."""
        if self.half_terms and working_dtype() == mx.float16:
            return 8 * HALF_ROUNDOFF * self.half_terms
        return 8 * ROUNDOFF * self.terms

    def __str__(self) -> str:
        return f"{self.operation}-{self.name}"


class Outcome(NamedTuple):
    """How one array of a case came out."""

    array: str
    error: float  # relative to the reference's length; infinite where a result is not finite
    passed: bool


def compare(case: Case) -> list[Outcome]:
    """Run `case` with and without kernels and compare each array."""
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


def with_gradients(function: Callable[..., list[mx.array]], **arguments: mx.array) -> Arrays:
    """Results of `function`, and for each argument the gradient of a random sum of them."""
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
