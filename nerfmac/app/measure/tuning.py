"""Tuning: every variant of each operation is compiled, compared with its reference, and timed. The
fastest variants are saved. The reference is the first variant that runs. In each round, the time of
another variant is divided by the time of the reference. The variant is selected only if the upper
error bound of the median ratio is below `RATIO_LIMIT`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from math import nan, sqrt
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np

from nerfmac.app.measure.benchmark import StepInputs, slopes
from nerfmac.app.measure.selftest.comparison import (
    Case,
    agreement,
    as_text,
    compile_for,
    in_variant,
)
from nerfmac.app.measure.timing import Timing, measure_interleaved, quartiles, timer
from nerfmac.backend import Arrays, runs_kernel, working_dtype
from nerfmac.backend.fallback import why_reference
from nerfmac.backend.variants import VARIANTS, keep
from nerfmac.common import InputError
from nerfmac.config import Config
from nerfmac.ops.hash_encode import hash_encode
from nerfmac.ops.march import count_samples
from nerfmac.ops.networks import networks

log = logging.getLogger("nerfmac")

RATIO_LIMIT = 0.98  # Limit of the error bound of the time ratio of a selected variant.
NOTCH = 2 * 1.57
"""Factor in the error bound of a median, NOTCH x interquartile range / sqrt(number of values). The
bound is twice the notch of a box plot (McGill, Tukey and Larsen 1978)."""
ROUNDS = 9
"""Minimum number of rounds. In simulations with three equally fast variants and noise of 5 to 30 %
per call, a variant other than the reference is selected in 1 to 3 % of the trials. If only medians
were compared, another variant would be selected in 39 to 64 % of the trials."""
SECONDS = 0.5  # Default time per operation, about `ROUNDS` rounds of three slow variants.


class Tried(NamedTuple):
    """Measurement of one variant: its time and error, or the reason why it cannot be used."""

    name: str
    timing: Timing | None = None  # time of a call, or None after a fault
    ratio: float | None = None  # time relative to the reference, median over rounds
    error: float | None = None  # largest relative error of an array
    fault: str | None = None  # exception, or wrong results
    at_most: float | None = None  # upper bound of the ratio, see `NOTCH`

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON values, with times in milliseconds."""
        timing = self.timing._asdict() if self.timing else None
        ratios = {"ratio": self.ratio, "ratio_at_most": self.at_most}
        return {"ms": timing, **ratios, "error": self.error, "fault": self.fault}


class Tuned(NamedTuple):
    """Measured variants of an operation, and the selected variant."""

    operation: str
    chosen: str
    tried: list[Tried]

    def to_json(self) -> dict[str, Any]:
        """Return the results of all variants as JSON values."""
        return {"chosen": self.chosen, "tried": {way.name: way.to_json() for way in self.tried}}


def tune(
    config: Config,
    extent: float = 1.0,
    *,
    seconds: float = SECONDS,
    on_tuned: Callable[[Tuned], None] = lambda _tuned: None,
) -> list[Tuned]:
    """Measure every variant of every operation, for about `seconds` each, and save the fastest ones
    in the cache folder. `config` and `extent`, the side length of the scene cube, determine the
    sizes of the operations."""
    if why := why_reference():
        raise InputError(f"there are no kernels to choose from: {why}")
    done = []
    for tuned in try_variants(config, extent, seconds=seconds):
        done.append(tuned)
        on_tuned(tuned)
    chosen = {tuned.operation: tuned.chosen for tuned in done}
    keep(config, chosen, {tuned.operation: tuned.to_json() for tuned in done})
    return done


def try_variants(
    config: Config, extent: float = 1.0, *, seconds: float = SECONDS
) -> Iterator[Tuned]:
    """Measure every variant of every operation, without saving which variants are fastest."""
    # All kernels are compiled in parallel, including the kernels that compute the inputs of the
    # trials.
    compile_for(case for trial in trials(config, extent) for case in _by_variant(trial).values())
    for trial in trials(config, extent):
        if cases := _by_variant(trial):
            yield _tuned(trial, cases, seconds)


def _by_variant(trial: Trial) -> dict[str, Case]:
    """Return the test case of a trial for each variant on this device, if there are several."""
    name, case = trial
    here = VARIANTS[name].here if runs_kernel(case.operation) else ()
    return {way: in_variant(case, name, way) for way in here} if len(here) > 1 else {}


def _tuned(trial: Trial, cases: Mapping[str, Case], seconds: float) -> Tuned:
    """Compare and time the `cases` of all variants of an operation, and log each failure."""
    name, case = trial
    tried, want = dict[str, Tried](), None
    for way, own in cases.items():
        try:
            got = own.run()
            mx.eval(got)
            want = got if want is None else want
            tried[way] = _compared(way, case, got, want)
        except Exception as error:  # for example, the compiler rejects the kernel
            tried[way] = Tried(way, fault=as_text(error))
    right = {way: cases[way] for way, result in tried.items() if result.fault is None}
    spent, faults = _timed(right, seconds, name)
    tried |= {way: Tried(way, fault=fault) for way, fault in faults.items()}
    reference = next(iter(spent), next(iter(cases)))
    for way, own_seconds in spent.items():
        ratios = np.divide(own_seconds, spent[reference])
        low, median, high = map(float, np.quantile(ratios, [0.25, 0.5, 0.75]))
        at_most = median + NOTCH * (high - low) / sqrt(len(ratios))
        timing = quartiles(own_seconds)
        tried[way] = tried[way]._replace(timing=timing, ratio=median, at_most=at_most)
    for way, result in tried.items():
        if result.fault:
            log.warning("variant %s of %s fails: %s", way, name, result.fault)
    faster = [way for way in spent if (tried[way].at_most or 1.0) < RATIO_LIMIT]
    best = min(faster, key=lambda way: tried[way].ratio or 1.0, default=reference)
    return Tuned(name, best, list(tried.values()))


def _timed(
    cases: Mapping[str, Case], seconds: float, what: str
) -> tuple[dict[str, list[float]], dict[str, str]]:
    """Return the times of each case in seconds, and the errors of cases that fail during timing."""
    faults: dict[str, str] = {}
    timers: dict[str, Callable[[], float]] = {}

    def time_call(way: str) -> float:
        if way in faults:
            return nan
        try:
            if way not in timers:
                timers[way] = timer(cases[way].run, queued=True)
            return timers[way]()
        except Exception as error:  # for example, the system stops GPU work
            faults[way] = as_text(error)
            return nan

    calls = [partial(time_call, way) for way in cases]
    options: Any = {"seconds": seconds, "least": ROUNDS, "what": what}
    rounds = measure_interleaved(calls, **options) if calls else []
    spent = dict(zip(cases, rounds, strict=True))
    return {way: own for way, own in spent.items() if way not in faults}, faults


def _compared(way: str, case: Case, got: Arrays, want: Arrays) -> Tried:
    """Compare the arrays `got` of a variant with the arrays `want` of the reference."""
    outcomes = agreement(case, got, want)
    differing = ", ".join(outcome.array for outcome in outcomes if not outcome.passed)
    fault = f"differs: {differing}" if differing else None
    return Tried(way, error=max(outcome.error for outcome in outcomes), fault=fault)


class Trial(NamedTuple):
    """Operation with variants, and a test case for which all of them must have the same results."""

    variants: str  # name in `nerfmac.backend.variants.VARIANTS`
    case: Case


def trials(config: Config, extent: float) -> Iterator[Trial]:
    """Yield a trial for each operation that has several variants, with `StepInputs`."""
    inputs = StepInputs(config, extent)

    def counted() -> Arrays:
        return {"counts": count_samples(*inputs.marched)}

    # A sample on the face between two cells may be assigned to either cell.
    yield Trial("march_count", Case("march", "tuning", counted, 1, outliers=0.001))
    yield Trial("hash_encode_gradient", _encoding(inputs))
    case = _networks(inputs)
    yield Trial("networks_gradient", case)
    yield Trial("networks_gradient_rows", case)


def _encoding(inputs: StepInputs) -> Case:
    positions, table, used = inputs.positions, inputs.table, inputs.samples.used
    gradient = slopes((inputs.slots, inputs.grid.outputs), 24).astype(working_dtype())
    mx.eval(gradient)

    def run() -> Arrays:
        def encode(table: mx.array) -> mx.array:
            return hash_encode(positions, table, inputs.grid.levels, used)

        # Only the gradient is returned, so the encoding itself is not evaluated.
        return {"d table": mx.vjp(encode, [table], [gradient])[1][0]}

    return Case("hash_encode", "tuning", run, 512, half_terms=1)


def _networks(inputs: StepInputs) -> Case:
    samples, features = inputs.samples, inputs.features.astype(working_dtype())
    gradients = [slopes((inputs.slots, 1), 26).reshape(-1), slopes((inputs.slots, 3), 27)]
    mx.eval(features, gradients)

    def run() -> Arrays:
        def evaluate(*arrays: mx.array) -> list[mx.array]:
            features, density, color = arrays
            others = inputs.basis, samples.ray, samples.used, density, color
            return list(networks(features, *others, inputs.shape))

        gradients_of_inputs = mx.vjp(evaluate, [features, *inputs.weights], gradients)[1]
        return dict(zip(("d features", "d density", "d color"), gradients_of_inputs, strict=True))

    return Case("networks", "tuning", run, 512, half_terms=8)
