"""Roofline model: the time of a training step at a chip's full memory bandwidth and compute rate.

It is an ESTIMATE; nobody has measured it. A step's launches are recorded with the sizes that an
Apple GPU would get, in the variants that its generation begins with. The estimate is the sum over
kernels of

    max(bytes / bandwidth, operations / rate, atomic additions / their rate),

for a perfect cache and for no cache, and `LAUNCH` for each launch. Waiting counts as no time. A
step takes longer than the estimate for a perfect cache, unless a large cache keeps whole arrays
from one kernel to the next.

Bandwidths are from Apple's specification pages. Rates are approximate: GPU cores x 128 lanes x 2
operations (a multiply-add) x clock, for the chip with the most cores unless the name says
otherwise; Apple publishes cores but not clocks. Rates are for float32. The networks' products are
float16, which Apple's GPUs compute about as fast. Rates of atomic additions are those of
nerfmac/backend/apple.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from nerfmac.app.measure.launches import Work, recorded_launches, step_work, total, unseen
from nerfmac.backend.apple import additions_per_second, has_native_floats
from nerfmac.config import Config


class Chip(NamedTuple):
    """A chip's published figures."""

    name: str
    bandwidth: float  # 10^9 bytes per second
    rate: float  # 10^12 float32 operations per second; approximate
    generation: int | None = None  # of an Apple GPU; None: atomics and launches take no time


LAUNCH = 2.75e-6
"""Seconds per launch of a kernel: a chain of 3,200 tiny ones took an M3 Ultra 8.8 ms
(ml-explore/mlx issue 4521). Assumed of every chip."""

CHIPS = (
    Chip("M1", 68, 2.6, 13),
    Chip("M1 Pro", 200, 5.2, 13),
    Chip("M1 Max", 400, 10.4, 13),
    Chip("M1 Ultra", 800, 21.0, 13),
    Chip("M2", 100, 3.6, 14),
    Chip("M2 Pro", 200, 6.8, 14),
    Chip("M2 Max", 400, 13.6, 14),
    Chip("M2 Ultra", 800, 27.2, 14),
    Chip("M3 (10 cores)", 100, 4.1, 15),
    Chip("M3 Pro (18 cores)", 150, 6.4, 15),
    Chip("M3 Max (40 cores)", 400, 16.4, 15),
    Chip("M3 Ultra", 819, 32.0, 15),
    Chip("M4", 120, 4.6, 16),
    Chip("M4 Pro", 273, 9.2, 16),
    Chip("M4 Max", 546, 18.4, 16),
)


_ASSUMED = (
    "atomic additions: by one public measurement (iRath96/metal-hashmlp), in proportion to TFLOPS;",
    "of integers on M1 and M2, which nobody has published, as fast as plain additions there",
    f"a launch: {1e6 * LAUNCH:.2f} us, of a chain of tiny kernels on an M3 Ultra (mlx issue 4521)",
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
    cached, uncached = (
        1e3 * sum(seconds(kernel, chip, cached=is_cached) for kernel in work.values())
        for is_cached in (True, False)
    )
    return Estimate(chip, cached, uncached)


def seconds(work: Work, chip: Chip, *, cached: bool) -> float:
    """Seconds of a kernel's `work`, its launches among them."""
    rate = 1e12 * chip.rate
    moved = work.seconds(1e9 * chip.bandwidth, rate, cached=cached)
    if chip.generation is None:
        return moved
    added = {True: work.float_atomics, False: work.integer_atomics}
    adding = sum(
        count / additions_per_second(chip.generation, rate, floats=floats)
        for floats, count in added.items()
    )
    return max(moved, adding) + LAUNCH * work.launches


class Roofline:
    """Estimates of a step of `config` on `chips`, for a scene in the unit cube."""

    def __init__(self, config: Config, chips: Sequence[Chip] = CHIPS) -> None:
        self.config, self.chips = config, chips
        self._work: dict[bool, dict[str, Work]] = {}  # by whether floats are added natively

    def work(self, generation: int | None) -> dict[str, Work]:
        """Work of a step by kernel, with its share of an occupancy update after the warm-up."""
        is_native = has_native_floats(generation)
        if is_native not in self._work:
            trainer, state = unseen(self.config)
            recorded = recorded_launches(trainer, state, on_metal=True, generation=generation)
            self._work[is_native] = step_work(recorded, self.config.occupancy.interval)
        return self._work[is_native]

    def estimates(self) -> list[Estimate]:
        """An estimate for each chip."""
        return [estimate(self.work(chip.generation), chip) for chip in self.chips]

    def lines(self) -> Iterator[str]:
        """The printed tables of work and estimates."""
        train, samples = self.config.train, self.config.march.max_samples
        yield (
            f"work of a training step with preset {self.config.preset}: {samples} samples of "
            f"{train.rays} rays, float16, unit cube, with 1/{self.config.occupancy.interval} of an "
            "occupancy update"
        )
        for generation in self._generations():
            yield ""
            yield from self._work_lines(generation)
        yield "cached: perfect cache, each array is moved once; uncached: no cache, each access to"
        yield "a table moves its row; MFLOP: hash encoding and networks only; M floats, M integers:"
        yield "10^6 of them added atomically; launches: MLX's fillings with zeros among them"
        yield ""
        yield "ESTIMATE of a step's time, measured by nobody: full bandwidth and rates, no waiting;"
        yield "with a perfect cache and with none"
        yield f"{'chip':20}{'GB/s':>8}{'TFLOPS':>9}{'cached':>13}{'uncached':>13}"
        for chip, cached, uncached in self.estimates():
            estimated = f"{cached:10.2f} ms{uncached:10.2f} ms"
            yield f"{chip.name:20}{chip.bandwidth:8g}{chip.rate:9g}{estimated}"
        yield "TFLOPS are approximate: cores x 128 lanes x 2 operations x clock"
        yield from _ASSUMED

    def _generations(self) -> list[int | None]:
        """A generation of GPU for each kind of work among the chips'."""
        by_kind = {has_native_floats(chip.generation): chip.generation for chip in self.chips}
        return list(by_kind.values())

    def _work_lines(self, generation: int | None) -> Iterator[str]:
        """The printed table of the work on a generation of GPU."""
        work = self.work(generation)
        names = [chip.name for chip in self.chips if self.work(chip.generation) is work]
        yield f"on {names[0]} to {names[-1]}"
        heads = ("MB cached", "MB uncached", "MFLOP", "M floats", "M integers", "launches")
        yield f"{'kernel':40}" + "".join(f"{head:>13}" for head in heads)
        for name, one in (*work.items(), ("all", total(work.values()))):
            figures = (*one[:3], one.float_atomics, one.integer_atomics)
            shown = "".join(f"{figure / 1e6:13.2f}" for figure in figures)
            yield f"{name:40}{shown}{one.launches:13}"

    def to_json(self) -> dict[str, Any]:
        """Work and estimates as JSON values."""
        return {
            "preset": self.config.preset,
            "rays": self.config.train.rays,
            "slots": self.config.march.max_samples,
            "counted": {
                generation: {name: work._asdict() for name, work in self.work(generation).items()}
                for generation in self._generations()
            },
            "estimated_not_measured": [
                {**chip._asdict(), "cached_ms": cached, "uncached_ms": uncached}
                for chip, cached, uncached in self.estimates()
            ],
        }
