"""A selftest's findings as one JSON file to attach to a bug report, and what is found out.

The file is always complete: it is written again after each finding, and before each case with the
case's name. So even after a crash of the process it has all earlier findings and the crashed case.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import mlx.core as mx

from nerfmac.backend import current_device, device_name, memory_bytes, using
from nerfmac.backend.build import compiler_version
from nerfmac.backend.machine import software
from nerfmac.backend.metal_text import exported
from nerfmac.backend.variants import variants_here
from nerfmac.common.files import write_json
from nerfmac.config.presets import preset
from nerfmac.measure.bench.roofline import Chip, chip_named, estimate
from nerfmac.measure.ceilings import Ceilings, measure_ceilings
from nerfmac.measure.launches import Launched, launches
from nerfmac.measure.step import NEVER_EVALUATED, recorded_launches, step_work
from nerfmac.measure.timing import measure
from nerfmac.measure.tuning import try_variants
from nerfmac.run import Run
from nerfmac.scenes import builtin_scene_path, load_scene

FINDINGS = ("ceilings", "variants", "training", "kernels", "watchdog", "prediction")
"""Names of the findings, in order; null in a report where one was not measured."""
SECONDS = 30.0
"""Seconds of training for a report."""
MEASURED = "measured"
"""Name of a chip whose rates are those that were measured."""
BOUND = 100.0
"""Milliseconds that a launch may take, so that none holds up a GPU's display for long."""
_MORE_THAN_ANY = 2048  # threads; Metal has no larger groups than 1024
_SAID = re.compile(r"maximum allowed threads per threadgroup \((?P<threads>\d+)\)")


class Report:
    """The findings so far; without a `path` they are kept in memory alone.

    Raises `InputError` where the file cannot be written, at once.
    """

    def __init__(self, path: Path | None) -> None:
        """Begin an empty report."""
        self.path = path
        self.values: dict[str, Any] = {"complete": False, **software(), "devices": []}
        self.save()

    @property
    def passed(self) -> bool:
        """Whether every device has passed."""
        return all(device["passed"] for device in self.values["devices"])

    def begin_device(self) -> None:
        """Begin the findings of the current device."""
        details: dict[str, Any] = {}
        if current_device() == "cpu":
            details["compiler"] = compiler_version()
        else:
            info = mx.device_info().items()
            details = {name: v if isinstance(v, int) else str(v) for name, v in info}
        self.values["devices"].append(
            {
                "device": current_device(),
                "device_name": device_name(),
                "details": details,
                "passed": True,
                "running": None,  # the case in progress
                "cases": [],  # as of `Compared`
                "not_run": [],  # specialisations that no case ran
                **dict.fromkeys(FINDINGS),
            }
        )

    def begin(self, what: str | None) -> None:
        """Write that `what` runs now, in case the process dies in it; None at the device's end."""
        self._device["running"] = what
        self.save()

    def add(self, finding: str, value: Any, *, passed: bool = True) -> None:
        """Keep `value` as, or in the list of, a finding of the device, and whether it `passed`.

        A number that JSON does not have becomes null.
        """
        held = self._device[finding]
        if isinstance(held, list):
            held.append(finite(value))
        else:
            self._device[finding] = finite(value)
        self._device["passed"] &= passed
        self.save()

    def end(self) -> None:
        """Write that the report is complete."""
        self.values["complete"] = True
        self.save()

    def save(self) -> None:
        """Write what is known so far."""
        if self.path:
            write_json(self.path, self.values)

    @property
    def _device(self) -> dict[str, Any]:
        return self.values["devices"][-1]


def finite(values: Any) -> Any:
    """`values` with null for the numbers that JSON does not have."""
    if isinstance(values, dict):
        return {name: finite(value) for name, value in values.items()}
    if isinstance(values, list):
        return list(map(finite, values))
    if isinstance(values, float) and not math.isfinite(values):
        return None
    return values


class Findings:
    """Finds out about the current device; the methods are the `FINDINGS`.

    Each returns JSON values. A later one needs what the earlier ones have found.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds  # of training
        self._chosen: Mapping[str, str] = {}
        self._ceilings: Ceilings
        self._kernels: list[dict[str, Any]] = []
        self._run: Run

    def find(self, finding: str) -> Any:
        """The finding of that name, with the variants that were found quickest."""
        with using(**self._chosen):
            return getattr(self, finding)()

    def ceilings(self) -> dict[str, Any]:
        """The highest bandwidth and rate that this machine shows."""
        self._ceilings = measure_ceilings(1.0)
        return self._ceilings._asdict()

    def variants(self) -> dict[str, Any]:
        """Every variant's time. The quickest are used from here on, and not kept."""
        found = list(try_variants(preset("auto", current_device(), memory_bytes())))
        self._chosen = {each.operation: each.chosen for each in found}
        return {each.operation: each.to_json() for each in found}

    def training(self) -> dict[str, Any]:
        """Quality after some seconds on the built-in scene, with the device's own preset."""
        config = preset("auto", current_device(), memory_bytes())
        self._run = run = Run.begin(load_scene(builtin_scene_path()), config)
        run.train(seconds=self._seconds)
        views, state = run.evaluate("test"), run.state
        return {
            "scene": "still_life",
            "preset": config.preset,
            "variants": variants_here(),
            "seconds": state.train_seconds,
            "steps": state.step,
            "step_ms": self._step_ms(),
            "rays": state.rays,
            "build_seconds": run.build_seconds,
            "psnr": sum(view.psnr for view in views) / len(views),
            "ssim": sum(view.ssim for view in views) / len(views),
            "test_views": len(views),
        }

    def kernels(self) -> list[dict[str, Any]]:
        """The time of each kernel's largest launch in an update, a step and a picture."""
        run = self._run
        *updates, step, _average = recorded_launches(run.trainer, run.state)
        computations = {
            "update": list(itertools.chain(*updates)),
            "step": step,
            "picture": launches(partial(run.render, run.orbit(frames=1)[0])),
        }
        self._kernels = []
        for computation, launched in computations.items():
            by_size = sorted(launched, key=lambda each: prod(each.call["grid"]))
            for each in {e.name: e for e in by_size if e.name not in NEVER_EVALUATED}.values():
                self._kernels.append({"computation": computation, **timed(each)})
        return self._kernels

    def watchdog(self) -> dict[str, Any]:
        """The longest launch of all kernels, beside what is allowed.

        For a GPU: a CPU has no display to hold up, and takes a picture as one launch.
        """
        longest = max(self._kernels, key=lambda each: each["milliseconds"]["median"])
        ms = longest["milliseconds"]["median"]
        of = f"{longest['computation']}, {longest['function']}"
        return {"bound_ms": BOUND, "longest_ms": ms, "launch": of, "margin": BOUND / ms}

    def prediction(self) -> dict[str, Any]:
        """A step's estimate by its bytes and operations, beside the time that it took.

        By the published figures of an Apple GPU, as in `nerfmac bench --roofline`; on another
        device by its measured ceilings.
        """
        measured = Chip(MEASURED, self._ceilings.bandwidth / 1e9, self._ceilings.rate / 1e12)
        published = chip_named(device_name()) if current_device() == "metal" else None
        run, chip = self._run, published or measured
        interval = run.trainer.sampler.interval_at(run.state.step)
        work = step_work(recorded_launches(run.trainer, run.state), interval)
        _, cached, uncached = estimate(work, chip)
        return {
            "chip": chip._asdict(),
            "cached_ms": cached,
            "uncached_ms": uncached,
            "measured_ms": self._step_ms(),
            "measured_over_cached": self._step_ms() / cached,
        }

    def _step_ms(self) -> float:
        return 1e3 * self._run.state.train_seconds / self._run.state.step


def timed(launched: Launched) -> dict[str, Any]:
    """The time and rates of one launch as JSON values; null where `Work` counts no operations.

    The bytes are `Work.cached`, the least that it moves. Caches may lift the bandwidth above the
    memory's; it is far below that if the kernel waits for something else.
    """
    timing, work = measure(launched.again, seconds=0.1), launched.work
    is_metal = current_device() == "metal"
    name = exported(launched.build, launched.call).specialisation if is_metal else None
    return {
        "function": launched.name,
        "specialisation": name,
        "milliseconds": timing._asdict(),
        "bytes": work.cached,
        "gigabytes_per_second": work.cached / timing.median / 1e6,
        "operations": work.operations or None,
        "gigaflops": work.operations / timing.median / 1e6 or None,
        "float_atomics": work.atomics,
        "most_threads": most_threads(launched),
    }


def most_threads(launched: Launched) -> int | None:
    """The most threads of a threadgroup that this launch's kernel allows, by its registers.

    MLX tells it on Metal alone, in the error by which it refuses a larger group
    (mlx/backend/metal/custom_kernel.cpp). None where it does not tell it.
    """
    if current_device() != "metal":
        return None
    try:
        mx.eval(launched.build(**{**launched.call, "threadgroup": (_MORE_THAN_ANY, 1, 1)}))
    except (ValueError, RuntimeError) as error:
        said = _SAID.search(str(error))
        return int(said["threads"]) if said else None
    return None


def in_words(finding: str, values: Any) -> str:
    """A finding for people: a line, or one for each kernel."""
    v = values
    if finding == "ceilings":
        return f"{v['bandwidth'] / 1e9:.3g} GB/s, {v['rate'] / 1e12:.3g} TFLOPS"
    if finding == "variants":
        return ", ".join(f"{name}={tuned['chosen']}" for name, tuned in v.items())
    if finding == "training":
        step = f"{v['steps']} steps of {v['step_ms']:.2f} ms"
        return f"{v['psnr']:.2f} dB after {v['seconds']:.1f} s, {step}, preset {v['preset']}"
    if finding == "kernels":
        return "".join(
            f"\n      {each['computation'] + ', ' + each['function']:44}"
            f"{each['milliseconds']['median']:8.2f} ms{each['gigabytes_per_second']:8.1f} GB/s"
            for each in v
        )
    if finding == "watchdog":
        longest = f"the longest launch takes {v['longest_ms']:.1f} ms ({v['launch']})"
        return f"{longest}; at most {v['bound_ms']:.0f} are wanted"
    rates = f"an {v['chip']['name']}'s published rates"
    rates = "its highest rates" if v["chip"]["name"] == MEASURED else rates
    predicted = f"{v['cached_ms']:.2f} to {v['uncached_ms']:.2f} ms by its bytes and operations"
    times = f"{v['measured_over_cached']:.1f} times the least"
    return f"a step took {v['measured_ms']:.2f} ms; predicted {predicted} at {rates}: {times}"
