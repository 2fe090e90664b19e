"""What a training step would take at a given bandwidth and rate if nothing else delayed it.

An ESTIMATE that nobody has measured. A step's launches are recorded with the sizes that an Apple
GPU would get; a kernel takes the time of its bytes at the full bandwidth or that of its operations
at the full rate, whichever is longer. Kernels run one after the other. Launching, waiting and float
atomics, whose rate no maker publishes, take no time. There are two estimates, for a perfect cache
and for none. A step takes longer than the first, unless a large cache keeps whole arrays from one
kernel to the next.

Bandwidths of Apple's chips are those of Apple's specification pages. Rates are approximate: GPU
cores x 128 lanes x 2 operations (a multiply-add) x clock, of the variant with the most cores unless
the name says otherwise; Apple publishes cores but not clocks. Rates are those of float32; the
networks' products are of half precision, which Apple's GPUs compute about as fast.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from nerfmac.config import Config
from nerfmac.measure.launches import Work, total
from nerfmac.measure.step import recorded_launches, step_work, unseen


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
    """Milliseconds of a step on a chip; nobody has measured them."""

    chip: Chip
    cached: float  # with a perfect cache: a step takes longer
    uncached: float  # without caches


def chip_named(device_name: str) -> Chip | None:
    """The figures of the device that MLX calls, say, `Apple M1 Pro`; None for another maker's."""
    name = device_name.removeprefix("Apple ")
    return next((chip for chip in CHIPS if chip.name.partition(" (")[0] == name), None)


def estimate(work: Mapping[str, Work], chip: Chip) -> Estimate:
    """The time of kernels with this `work` on a chip; see the module's docstring."""
    rates = 1e9 * chip.bandwidth, 1e12 * chip.rate
    cached, uncached = (
        1e3 * sum(each.seconds(*rates, cached=is_cached) for each in work.values())
        for is_cached in (True, False)
    )
    return Estimate(chip, cached, uncached)


class Roofline:
    """Estimates of a step of `config` on `chips`, in a scene that fills the unit cube."""

    def __init__(self, config: Config, chips: Sequence[Chip] = CHIPS) -> None:
        self.config, self.chips = config, chips

    @cached_property
    def work(self) -> dict[str, Work]:
        """A step's work by kernel, with its part of an occupancy update after the warm-up."""
        recorded = recorded_launches(*unseen(self.config), on_metal=True)
        return step_work(recorded, self.config.occupancy.interval)

    def estimates(self) -> list[Estimate]:
        """An estimate for each chip."""
        return [estimate(self.work, chip) for chip in self.chips]

    def lines(self) -> Iterator[str]:
        """The counts and the estimates, for people."""
        train, march = self.config.train, self.config.march
        yield f"preset {self.config.preset}, half precision, a scene in the unit cube"
        yield (
            f"one training step of {march.max_samples} samples on {train.rays} rays, with its "
            f"1/{self.config.occupancy.interval} of an occupancy update, by its launches' sizes:"
        )
        yield f"{'':40}{'MB cached':>11}{'MB uncached':>13}{'MFLOP':>10}{'M atomics':>11}"
        for name, work in (*self.work.items(), ("all", total(self.work.values()))):
            figures = f"{work.cached / 1e6:11.2f}{work.uncached / 1e6:13.2f}"
            yield f"{name:40}{figures}{work.operations / 1e6:10.2f}{work.atomics / 1e6:11.2f}"
        yield "cached: each array is moved once; uncached: each row of a table whenever needed;"
        yield "MFLOP of the encoding and the networks; atomics: floats added where threads meet"
        yield ""
        yield "ESTIMATE, a lower bound that nobody has measured: all runs at the full bandwidth and"
        yield "rate, and nothing waits; with a perfect cache (cached) and without any (uncached)"
        yield f"{'':20}{'GB/s':>8}{'TFLOPS':>9}{'cached':>13}{'uncached':>13}"
        for chip, cached, uncached in self.estimates():
            estimated = f"{cached:10.2f} ms{uncached:10.2f} ms"
            yield f"{chip.name:20}{chip.bandwidth:8g}{chip.rate:9g}{estimated}"
        yield "TFLOPS of Apple's chips are approximate: cores x 128 x 2 x clock"

    def to_json(self) -> dict[str, Any]:
        """The same as JSON values; the keys of estimates say that they are estimates."""
        return {
            "preset": self.config.preset,
            "rays": self.config.train.rays,
            "slots": self.config.march.max_samples,
            "counted": {name: work._asdict() for name, work in self.work.items()},
            "estimated_not_measured": [
                {**chip._asdict(), "cached_ms": cached, "uncached_ms": uncached}
                for chip, cached, uncached in self.estimates()
            ],
        }
