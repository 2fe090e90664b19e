"""Gradients that arrive late: ranks exchange a table's while they compute the next step.

At each step a table moves by the mean gradient of the step before, and the networks by that of the
step itself, which is sent at once, being small: late networks cost more than 1 dB, a late table
less than half of one (measured, BENCHMARKS.md). What was on its way when training ends is dropped.
All ranks have the same parameters after every step, as they step by the same means.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import NamedTuple

import mlx.core as mx

from nerfmac.backend import compile_seldom
from nerfmac.config import RanksConfig
from nerfmac.fields.field import Parameters
from nerfmac.ranks import Ranks, Sums, mean_of
from nerfmac.ranks.ranks import LARGE


class Own(NamedTuple):
    """A rank's own gradients that are still to be sent, and their weight ()."""

    gradients: Parameters
    weight: mx.array


def late_ones(sizes: Mapping[str, int], tables: Collection[str]) -> list[str]:
    """Which parameters, by their names and `sizes` in elements, are late: large `tables`."""
    return [name for name, size in sizes.items() if size >= LARGE and name in tables]


class Late:
    """What of the last step is on its way."""

    def __init__(self, ranks: Ranks, config: RanksConfig, tables: Collection[str]) -> None:
        self.is_on = config.late and ranks.size > 1
        self._tables = tables
        self._sums_of = compile_seldom(partial(_sums, ranks, config))
        self.sums: Sums | tuple[()] = ()
        """Of the last step's gradients, which may not have arrived."""

    def begin(self, parameters: Parameters) -> None:
        """Before a step that has none before it: nothing is on its way, so tables do not move."""
        self.end()
        if self.is_on:
            sizes = {name: values.size for name, values in parameters.items()}
            names = late_ones(sizes, self._tables)
            zeros = {name: mx.zeros(parameters[name].shape) for name in names}
            self.send(Own(zeros, mx.array(1.0)))

    def send(self, own: Own | tuple[()]) -> None:
        """Send what a step left; it is `sums` of the next. Call `start` to begin at once."""
        if own:
            self.sums = Sums(*self._sums_of(Own(*own)))

    def start(self) -> None:
        """Begin to send, while the host goes on."""
        mx.async_eval(self.sums)

    def end(self) -> None:
        """Wait for what is on its way: ranks must not talk of two things at a time."""
        mx.eval(self.sums)


def stepping(
    ranks: Ranks,
    config: RanksConfig,
    gradients: Parameters,
    weight: mx.array,
    sums: Sums | tuple[()],
) -> tuple[Parameters, Own | tuple[()]]:
    """The gradients to step by, and those to be sent; `sums` are those of the last step.

    Args:
        ranks: who exchange.
        config: how.
        gradients: this rank's, of this step.
        weight: () float32, how many times they count.
        sums: as in `Late`; without any, all gradients are exchanged now.
    """
    if not sums:
        return ranks.weighted_mean(gradients, weight, config.words), ()
    sums = Sums(*sums)
    own = {name: gradients[name] for name in sums.large}
    now = {name: each for name, each in gradients.items() if name not in own}
    means = ranks.weighted_mean(now, weight, config.words)
    # Without this the device might wait for what is on its way before it has computed the step.
    names, after = list(sums.large), [*means.values(), *own.values()]
    arrived = mx.depends([sums.small, *sums.large.values()], after)
    sums = Sums(dict(zip(names, arrived[1:], strict=True)), arrived[0])
    means |= mean_of(sums, own)
    # In the order of before, else the step would be traced again.
    return {name: means[name] for name in gradients}, Own(own, weight)


def _sums(ranks: Ranks, config: RanksConfig, own: Own) -> Sums:
    return ranks.weighted_sums(*own, config.words)
