"""What a training step would take at a given bandwidth and rate, if nothing else held it up.

An ESTIMATE from counted bytes and operations (`nerfmac.bench.work`), measured by nobody: each part
takes the longer of its bytes at the full bandwidth and its operations at the full rate, one part
after the other, and launches, waiting and what is left out of the counts take no time. The first
figure lets caches spare every row that is needed again, the second none: a step takes longer than
the first, unless a large cache keeps whole arrays from one kernel to the next.

Bandwidths of Apple's chips are those of Apple's specification pages. Rates are approximate: GPU
cores x 128 lanes x 2 operations (a multiply-add) x clock, of the variant with the most cores unless
the name says otherwise; Apple publishes cores but not clocks. Rates are those of float32; the
networks' products are of half precision, which Apple's GPUs compute about as fast.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from nerfmac.bench.work import Sizes, Work, between_work, step_work, update_work


class Chip(NamedTuple):
    """A device's published figures."""

    name: str
    bandwidth: float  # 10^9 bytes a second
    rate: float  # 10^12 float32 operations a second; approximate


CHIPS = (
    Chip("M1", 68, 2.6),
    Chip("M1 Pro", 200, 5.2),
    Chip("M1 Max", 400, 10.4),
    Chip("M1 Ultra", 800, 21.0),
    Chip("M2", 100, 3.6),
    Chip("M2 Pro", 200, 6.8),
    Chip("M2 Max", 400, 13.6),
    Chip("M2 Ultra", 800, 27.2),
    Chip("M3 (10 cores)", 100, 4.1),
    Chip("M3 Pro (18 cores)", 150, 6.4),
    Chip("M3 Max (40 cores)", 400, 16.4),
    Chip("M3 Ultra", 819, 32.0),
    Chip("M4", 120, 4.6),
    Chip("M4 Pro", 273, 9.2),
    Chip("M4 Max", 546, 18.4),
)


class Estimate(NamedTuple):
    """A step's milliseconds on a chip; nobody has measured them."""

    chip: Chip
    cached: float  # if caches spare every row that is needed again: a step takes longer
    uncached: float  # if they spare none


def parts(sizes: Sizes) -> dict[str, Work]:
    """A step's work, an occupancy update's share in it, by what is done in one go."""
    update = {
        f"{name} (occupancy)": work.share(sizes.interval)
        for name, work in update_work(sizes).items()
    }
    return {**step_work(sizes), "between kernels": between_work(sizes), **update}


def estimate(sizes: Sizes, chip: Chip) -> Estimate:
    """What a step of these sizes would take on `chip`; see the module's text."""
    bandwidth, rate = 1e9 * chip.bandwidth, 1e12 * chip.rate
    cached, uncached = (
        sum(work.seconds(bandwidth, rate, cached=spared) for work in parts(sizes).values())
        for spared in (True, False)
    )
    return Estimate(chip, 1e3 * cached, 1e3 * uncached)


def lines(sizes: Sizes, chips: Sequence[Chip]) -> Iterator[str]:
    """The counts and the estimates, for people."""
    counted = parts(sizes)
    yield (
        f"one training step of {sizes.slots} samples on {sizes.rays} rays, with its share of the "
        "occupancy update, counted from its shapes:"
    )
    yield f"{'':40}{'MB once':>10}{'MB anew':>10}{'MFLOP':>10}"
    for name, work in (*counted.items(), ("all", sum(counted.values(), Work()))):
        cells = (work.once, work.anew, work.operations)
        yield f"{name:40}" + "".join(f"{value / 1e6:10.2f}" for value in cells)
    yield "once: each array moved once; anew: each gathered row of a table moved every time"
    yield ""
    yield "ESTIMATE, a lower bound that nobody has measured: all at the full bandwidth and rate,"
    yield "nothing waits. 'at least': caches hold every row needed again; 'without caches': none"
    yield f"{'':20}{'GB/s':>8}{'TFLOPS':>9}{'at least':>13}{'without caches':>17}"
    for chip in chips:
        guess = estimate(sizes, chip)
        yield (
            f"{chip.name:20}{chip.bandwidth:8g}{chip.rate:9g}{guess.cached:10.2f} ms"
            f"{guess.uncached:14.2f} ms"
        )
    yield "TFLOPS of Apple's chips are approximate: cores x 128 x 2 x clock"


def to_json(sizes: Sizes, chips: Sequence[Chip]) -> dict[str, Any]:
    """The same as JSON values; what is estimated says so."""
    return {
        "rays": sizes.rays,
        "slots": sizes.slots,
        "counted": {name: work.__dict__ for name, work in parts(sizes).items()},
        "estimated_not_measured": [
            {
                **guess.chip._asdict(),
                "cached_ms": guess.cached,
                "uncached_ms": guess.uncached,
            }
            for guess in (estimate(sizes, chip) for chip in chips)
        ],
    }
