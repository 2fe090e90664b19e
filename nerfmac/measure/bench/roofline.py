"""Roofline model: the time of a training step at a chip's full memory bandwidth and compute rate.

It is an ESTIMATE; nobody has measured it. A step's launches are recorded with the sizes that an
Apple GPU would get. The estimate is the sum over kernels of max(bytes / bandwidth, operations /
rate), for a perfect cache and for no cache. Launching, waiting and float atomics, whose rate no
maker publishes, are taken to need no time. A step takes longer than the estimate for a perfect
cache, unless a large cache keeps whole arrays from one kernel to the next.

Bandwidths are from Apple's specification pages. Rates are approximate: GPU cores x 128 lanes x 2
operations (a multiply-add) x clock, for the chip with the most cores unless the name says
otherwise; Apple publishes cores but not clocks. Rates are for float32. The networks' products are
float16, which Apple's GPUs compute about as fast.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from nerfmac.config import Config
from nerfmac.measure.launches import Work, recorded_launches, step_work, total, unseen


class Chip(NamedTuple):
    """A chip's published figures."""

    name: str
    bandwidth: float  # 10^9 bytes per second
    rate: float  # 10^12 float32 operations per second; approximate


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
    """Estimated milliseconds of a step on a chip."""

    chip: Chip
    cached: float  # with a perfect cache
    uncached: float  # without caches


def chip_named(device_name: str) -> Chip | None:
    """The chip with MLX's device name, for example `Apple M1 Pro`; None if it is not in `CHIPS`."""
    name = device_name.removeprefix("Apple ")
    return next((chip for chip in CHIPS if chip.name.partition(" (")[0] == name), None)


def estimate(work: Mapping[str, Work], chip: Chip) -> Estimate:
    """The estimate for a step with this `work` by kernel; see the module's docstring."""
    rates = 1e9 * chip.bandwidth, 1e12 * chip.rate
    cached, uncached = (
        1e3 * sum(kernel.seconds(*rates, cached=is_cached) for kernel in work.values())
        for is_cached in (True, False)
    )
    return Estimate(chip, cached, uncached)


class Roofline:
    """Estimates of a step of `config` on `chips`, for a scene in the unit cube."""

    def __init__(self, config: Config, chips: Sequence[Chip] = CHIPS) -> None:
        self.config, self.chips = config, chips

    @cached_property
    def work(self) -> dict[str, Work]:
        """Work of a step by kernel, with its share of an occupancy update after the warm-up."""
        recorded = recorded_launches(*unseen(self.config), on_metal=True)
        return step_work(recorded, self.config.occupancy.interval)

    def estimates(self) -> list[Estimate]:
        """An estimate for each chip."""
        return [estimate(self.work, chip) for chip in self.chips]

    def lines(self) -> Iterator[str]:
        """The printed tables of work and estimates."""
        train, samples = self.config.train, self.config.march.max_samples
        yield (
            f"work of a training step with preset {self.config.preset}: {samples} samples of "
            f"{train.rays} rays, float16, unit cube, with 1/{self.config.occupancy.interval} of an "
            "occupancy update"
        )
        yield f"{'kernel':40}{'MB cached':>11}{'MB uncached':>13}{'MFLOP':>10}{'M atomics':>11}"
        for name, work in (*self.work.items(), ("all", total(self.work.values()))):
            figures = f"{work.cached / 1e6:11.2f}{work.uncached / 1e6:13.2f}"
            yield f"{name:40}{figures}{work.operations / 1e6:10.2f}{work.atomics / 1e6:11.2f}"
        yield "cached: perfect cache, each array is moved once; uncached: no cache, each access to"
        yield "a table moves its row; MFLOP: hash encoding and networks only; M atomics: 10^6"
        yield "atomic float additions"
        yield ""
        yield "ESTIMATE of a step's time, measured by nobody: full bandwidth and rate, no waiting,"
        yield "atomics for free; with a perfect cache and with none"
        yield f"{'chip':20}{'GB/s':>8}{'TFLOPS':>9}{'cached':>13}{'uncached':>13}"
        for chip, cached, uncached in self.estimates():
            estimated = f"{cached:10.2f} ms{uncached:10.2f} ms"
            yield f"{chip.name:20}{chip.bandwidth:8g}{chip.rate:9g}{estimated}"
        yield "TFLOPS are approximate: cores x 128 lanes x 2 operations x clock"

    def to_json(self) -> dict[str, Any]:
        """Work and estimates as JSON values."""
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
