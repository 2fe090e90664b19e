"""Self-test report (a JSON file to attach to a bug report) and its measurements. The file is
written after each finding and before each test case. After a crash, it is therefore valid JSON with
all earlier findings and the name of the test case that crashed."""

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

from nerfmac.app.measure.launches import Launched, by_kernel, launches, recorded_launches
from nerfmac.app.measure.timing import measure, measure_ceilings
from nerfmac.app.measure.tuning import try_variants
from nerfmac.app.run import Run
from nerfmac.app.scenes import builtin_scene_path, load_scene
from nerfmac.backend import current_device, device_name, memory_bytes, using
from nerfmac.backend.apple import LONGEST_LAUNCH
from nerfmac.backend.build import compiler_version
from nerfmac.backend.machine import software
from nerfmac.backend.metal_text import exported
from nerfmac.backend.variants import variants_here
from nerfmac.common.files import write_json
from nerfmac.config.presets import preset

FINDINGS = ("ceilings", "variants", "training", "kernels", "watchdog")
"""Names of the findings in a report, in order of measurement. If a finding was not measured, its
value is null."""
SECONDS = 30.0  # Default training time for a report, in seconds.
BOUND = 1e3 * LONGEST_LAUNCH  # Milliseconds; longer launches may delay the display.
_TOO_MANY_THREADS = 2048  # a threadgroup of Metal has at most 1024
_THREADS_IN_ERROR = re.compile(r"maximum allowed threads per threadgroup \((?P<threads>\d+)\)")


class Report:
    """Findings of a self-test on one or more devices."""

    def __init__(self, path: Path | None) -> None:
        """Write an empty report to a JSON file, or store the findings only in memory if `path` is
        None."""
        self.path = path
        self.values: dict[str, Any] = {"complete": False, **software(), "devices": []}
        self.save()

    @property
    def passed(self) -> bool:
        """Whether every device has passed."""
        return all(device["passed"] for device in self.values["devices"])

    def begin_device(self) -> None:
        """Add an empty entry for the current device. Later findings are recorded in this entry."""
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
                "cases": [],  # `Compared.to_json` of each case
                "not_run": [],  # specializations that no case launched
                **dict.fromkeys(FINDINGS),
            }
        )

    def begin(self, what: str | None) -> None:
        """Record the test case that starts now, or None after the device's last test case."""
        self._device["running"] = what
        self.save()

    def add(self, finding: str, value: Any, *, passed: bool = True) -> None:
        """Record a finding of the device, or append it to the list "cases" or "not_run". Numbers
        that are not finite become null. A device passes if it passes all findings."""
        recorded = self._device[finding]
        if isinstance(recorded, list):
            recorded.append(finite(value))
        else:
            self._device[finding] = finite(value)
        self._device["passed"] &= passed
        self.save()

    def end(self) -> None:
        """Mark the report as complete."""
        self.values["complete"] = True
        self.save()

    def save(self) -> None:
        """Write the findings so far."""
        if self.path:
            write_json(self.path, self.values)

    @property
    def _device(self) -> dict[str, Any]:
        return self.values["devices"][-1]


def finite(values: Any) -> Any:
    """Return a copy of JSON values with None for numbers that are not finite."""
    if isinstance(values, dict):
        return {name: finite(value) for name, value in values.items()}
    if isinstance(values, list):
        return list(map(finite, values))
    if isinstance(values, float) and not math.isfinite(values):
        return None
    return values


class Findings:
    """Measurements of the current device as JSON values, with a method for each of the `FINDINGS`.
    The methods must be called in order, because later measurements use earlier results."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds  # training time in seconds
        self._chosen: Mapping[str, str] = {}
        self._kernels: list[dict[str, Any]] = []
        self._run: Run

    def find(self, finding: str) -> Any:
        """Measure and return the finding with a given name, with the fastest variants."""
        with using(**self._chosen):
            return getattr(self, finding)()

    def ceilings(self) -> dict[str, Any]:
        """Return the maximum bandwidth and rate, keyed by the fields of `Ceilings`."""
        return measure_ceilings(1.0)._asdict()

    def variants(self) -> dict[str, Any]:
        """Measure every variant of each operation. Later findings use the fastest ones."""
        done = list(try_variants(preset("auto", current_device(), memory_bytes())))
        self._chosen = {tuned.operation: tuned.chosen for tuned in done}
        return {tuned.operation: tuned.to_json() for tuned in done}

    def training(self) -> dict[str, Any]:
        """Train on the built-in scene with the preset for the device, and return the quality."""
        config = preset("auto", current_device(), memory_bytes())
        self._run = run = Run.begin(load_scene(builtin_scene_path()), config)
        run.train(seconds=self._seconds)
        views, state = run.evaluate("test"), run.state
        return {
            "scene": "still_life",
            "preset": config.preset,
            "variants": variants_here(config),
            "seconds": state.train_seconds,
            "steps": state.step,
            "step_ms": 1e3 * state.train_seconds / state.step,
            "rays": state.rays,
            "build_seconds": run.build_seconds,
            "psnr": sum(view.psnr for view in views) / len(views),
            "ssim": sum(view.ssim for view in views) / len(views),
            "test_views": len(views),
        }

    def kernels(self) -> list[dict[str, Any]]:
        """Return the largest launch time of each kernel in an update, a step, and an image."""
        run = self._run
        *updates, step, _average = recorded_launches(run.trainer, run.state)
        computations = {
            "update": list(itertools.chain(*updates)),
            "step": step,
            "image": launches(partial(run.render, run.orbit(frames=1)[0])),
        }
        self._kernels = []
        for computation, recorded in computations.items():
            for same in by_kernel(recorded).values():
                largest = max(same, key=lambda launched: prod(launched.call["grid"]))
                self._kernels.append({"computation": computation, **timed(largest)})
        return self._kernels

    def watchdog(self) -> dict[str, Any]:
        """Return the longest duration of a launch, and its recommended limit on a GPU."""
        longest = max(self._kernels, key=lambda kernel: kernel["milliseconds"]["median"])
        ms = longest["milliseconds"]["median"]
        name = f"{longest['computation']}, {longest['function']}"
        return {"bound_ms": BOUND, "longest_ms": ms, "launch": name, "margin": BOUND / ms}


def timed(launched: Launched) -> dict[str, Any]:
    """Measure the time and the throughput of a launch, as JSON values. Bytes are `Work.cached`, so
    their rate may exceed the memory bandwidth if arrays fit in caches."""
    timing, work = measure(launched.again, seconds=0.1), launched.work
    is_metal = current_device() == "metal"
    name = exported(launched.build, launched.call).specialization if is_metal else None
    return {
        "function": launched.name,
        "specialization": name,
        "milliseconds": timing._asdict(),
        "bytes": work.cached,
        "gigabytes_per_second": work.cached / timing.median / 1e6,
        "operations": work.operations or None,
        "gigaflops": work.operations / timing.median / 1e6 or None,
        "float_atomics": work.float_atomics,
        "integer_atomics": work.integer_atomics,
        "most_threads": most_threads(launched),
    }


def most_threads(launched: Launched) -> int | None:
    """Return the maximum threadgroup size of a kernel, or None if it is unknown. The size depends
    on the number of registers. MLX reports it only on Metal, in the error message for a larger
    threadgroup (mlx/backend/metal/custom_kernel.cpp)."""
    if current_device() != "metal":
        return None
    try:
        mx.eval(launched.build(**{**launched.call, "threadgroup": (_TOO_MANY_THREADS, 1, 1)}))
    except (ValueError, RuntimeError) as error:
        match = _THREADS_IN_ERROR.search(str(error))
        return int(match["threads"]) if match else None
    return None


def in_words(finding: str, values: Any) -> str:
    """Return the line to print for a finding, or one line for each kernel."""
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
            f"\n      {kernel['computation'] + ', ' + kernel['function']:44}"
            f"{kernel['milliseconds']['median']:8.2f} ms{kernel['gigabytes_per_second']:8.1f} GB/s"
            for kernel in v
        )
    longest = f"the longest launch takes {v['longest_ms']:.1f} ms ({v['launch']})"
    return f"{longest}; it should take at most {v['bound_ms']:.0f} ms"
