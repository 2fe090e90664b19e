"""Trying the variants: built, checked against the first, timed in turns, the quickest kept.

Another than the first is kept only if it is quicker by 2 % at least, and not by chance: its time
over the first's, round by round, has a median below that even if chance has favoured it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from math import sqrt
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np

from nerfmac.backend import Arrays, device_name, runs_kernel, working_dtype
from nerfmac.backend.build import BuildError
from nerfmac.backend.fallback import why_reference
from nerfmac.backend.variants import VARIANTS, keep
from nerfmac.common.checks import InputError
from nerfmac.config import Config
from nerfmac.measure.inputs import StepInputs, slopes
from nerfmac.measure.selftest.comparison import Case, agreement, in_variant
from nerfmac.measure.selftest.diagnosis import as_text, compile_for
from nerfmac.measure.timing import Timing, measure_interleaved, quartiles, queue_of, seconds_a_call
from nerfmac.ops.hash_encode import hash_encode
from nerfmac.ops.march import count_samples
from nerfmac.ops.networks import networks

log = logging.getLogger("nerfmac")

NOTICED = 0.98
"""Of the first variant's time: another one that may take more is not worth a change."""
NOTCH = 2 * 1.57
"""Of a median: this times the quartiles' distance, over the root of how many values there are, is
more than it is off by chance; twice the notch of a box plot (McGill, Tukey and Larsen 1978)."""
ROUNDS = 9
"""Least number of them. With noise of 5 to 30 % a call, one of two that are as quick as the first
is then chosen in 1 to 3 % of simulated trials, and by the medians alone in 39 to 64 %."""
SECONDS = 0.5
"""Of timing an operation's variants: on a GPU about `ROUNDS` of three, each a 50th of a second."""


class Tried(NamedTuple):
    """A variant that was tried."""

    name: str
    timing: Timing | None = None  # of a call; None where it has a fault
    ratio: float | None = None  # of its time to the first variant's, the median over rounds
    error: float | None = None  # from the first variant's results, the largest of the arrays
    fault: str | None = None  # why it is not to be had
    at_most: float | None = None  # what the ratio is even if chance has favoured it, by `NOTCH`

    def to_json(self) -> dict[str, Any]:
        """The record as JSON values, times in milliseconds."""
        timing = self.timing._asdict() if self.timing else None
        ratios = {"ratio": self.ratio, "ratio_at_most": self.at_most}
        return {"ms": timing, **ratios, "error": self.error, "fault": self.fault}


class Tuned(NamedTuple):
    """An operation with what came of its variants."""

    operation: str
    chosen: str
    tried: list[Tried]

    def to_json(self) -> dict[str, Any]:
        """The record as JSON values."""
        return {"chosen": self.chosen, "tried": {each.name: each.to_json() for each in self.tried}}


def tune(
    config: Config,
    extent: float = 1.0,
    *,
    seconds: float = SECONDS,
    shows_bar: bool = True,
    on_tuned: Callable[[Tuned], None] = lambda _tuned: None,
) -> list[Tuned]:
    """Try every variant with `config` in a scene of side `extent`, and keep what is quickest.

    Args:
        config: whose sizes the operations have.
        extent: as of a `Scene`.
        seconds: of timing, for each operation, about.
        shows_bar: whether to show how far it is.
        on_tuned: is given each operation's outcome as soon as it is known.

    Raises:
        InputError: no kernels run here, or the cache folder cannot be written.
    """
    if why := why_reference():
        raise InputError(f"there are no kernels to choose from: {why}")
    found = []
    for each in try_variants(config, extent, seconds=seconds, shows_bar=shows_bar):
        found.append(each)
        on_tuned(each)
    chosen = {each.operation: each.chosen for each in found}
    keep(chosen, {each.operation: each.to_json() for each in found})
    return found


def try_variants(
    config: Config, extent: float = 1.0, *, seconds: float = SECONDS, shows_bar: bool = True
) -> Iterator[Tuned]:
    """As `tune`, operation by operation, but nothing is kept."""
    # All side by side, with those that make the trials' inputs: a launch waits for its own kernel.
    compile_for(way for trial in trials(config, extent) for way in _ways(trial).values())
    for trial in trials(config, extent):
        if ways := _ways(trial):
            yield _tuned(trial, ways, seconds, shows_bar)


def tune_first(config: Config, extent: float, *, shows_bar: bool = True) -> None:
    """`tune` before the first training on a GPU: what fails is logged, and training goes on."""
    log.info("the first training on %s: trying variants of its kernels, once", device_name())
    try:
        found = tune(config, extent, shows_bar=shows_bar)
    except (InputError, BuildError) as error:  # training does without
        log.warning("the variants stay as they are: %s", error)
        return
    log.info("chosen: %s", ", ".join(f"{each.operation}={each.chosen}" for each in found))


def _ways(trial: Trial) -> dict[str, Case]:
    """The trial's case in each variant, by name; none where there is nothing to choose."""
    name, case = trial
    here = VARIANTS[name].here if runs_kernel(case.operation) else ()
    return {way: in_variant(case, name, way) for way in here} if len(here) > 1 else {}


def _tuned(trial: Trial, ways: Mapping[str, Case], seconds: float, shows_bar: bool) -> Tuned:
    name, case = trial
    first, tried, want = next(iter(ways)), dict[str, Tried](), None
    for way, own in ways.items():
        try:
            got = own.run()
            mx.eval(got)
            want = got if way == first else want
            tried[way] = _checked(way, case, got, want)
        except Exception as error:  # such as a compiler's that refuses the kernel
            tried[way] = Tried(way, fault=as_text(error))
    right = [way for way, each in tried.items() if each.fault is None]
    timers = [_timer(ways[way].run) for way in right]
    how: Any = {"seconds": seconds, "least": ROUNDS, "what": name if shows_bar else None}
    spent = measure_interleaved(timers, **how) if right else []
    for way, own_seconds in zip(right, spent, strict=True):
        # A ratio is of one round: a machine that other programs use is slow in whole rounds.
        ratios = np.divide(own_seconds, spent[0])
        low, median, high = map(float, np.quantile(ratios, [0.25, 0.5, 0.75]))
        at_most = median + NOTCH * (high - low) / sqrt(len(ratios))
        timing = quartiles(own_seconds)
        tried[way] = tried[way]._replace(timing=timing, ratio=median, at_most=at_most)
    better = [way for way in right if (tried[way].at_most or 1.0) < NOTICED]
    best = min(better, key=lambda way: tried[way].ratio or 1.0, default=first)
    return Tuned(name, best, list(tried.values()))


def _checked(way: str, case: Case, got: Arrays, want: Arrays | None) -> Tried:
    """How far `got` is from the first variant's `want`; a fault if too far, or if there is none."""
    if want is None:
        return Tried(way, fault="there is nothing to compare it with")
    outcomes = agreement(case, got, want)
    differing = ", ".join(outcome.array for outcome in outcomes if not outcome.passed)
    fault = f"differs: {differing}" if differing else None
    return Tried(way, error=max(outcome.error for outcome in outcomes), fault=fault)


def _timer(run: Callable[[], Arrays]) -> Callable[[], float]:
    """Times a call, several together if they are short: starting and waiting cost as much."""
    repeats = queue_of(run)
    return lambda: seconds_a_call(run, repeats)


class Trial(NamedTuple):
    """An operation that has variants, with inputs; the case computes what they must agree on."""

    variants: str  # its name in `nerfmac.backend.variants`
    case: Case


def trials(config: Config, extent: float) -> Iterator[Trial]:
    """A trial for each operation that has variants, with `config` in a scene of side `extent`."""
    inputs = StepInputs(config, extent)

    def counted() -> Arrays:
        return {"counts": count_samples(*inputs.marched)}

    # A sample on a cell's face may be in either.
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

        # The encoding itself is not evaluated, as nothing needs it.
        return {"d table": mx.vjp(encode, [table], [gradient])[1][0]}

    return Case("hash_encode", "tuning", run, 512, half_terms=1)


def _networks(inputs: StepInputs) -> Case:
    samples, features = inputs.samples, inputs.features.astype(working_dtype())
    gradients = [slopes((inputs.slots, 1), 26).reshape(-1), slopes((inputs.slots, 3), 27)]
    mx.eval(features, gradients)

    def run() -> Arrays:
        def evaluate(*arrays: mx.array) -> list[mx.array]:
            features, density, colour = arrays
            given = inputs.basis, samples.ray, samples.used, density, colour
            return list(networks(features, *given, inputs.shape))

        found = mx.vjp(evaluate, [features, *inputs.weights], gradients)[1]
        return dict(zip(("d features", "d density", "d colour"), found, strict=True))

    return Case("networks", "tuning", run, 512, half_terms=8)
