"""A selftest's findings as one JSON file, to attach to a bug report.

The file is always complete: it is written again after each finding, and before each case with the
case's name. So even after a crash of the process it has all earlier findings and the crashed case.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx

from nerfmac.backend import current_device, device_name
from nerfmac.backend.build import compiler_version
from nerfmac.backend.machine import software
from nerfmac.files import write_json
from nerfmac.measure.selftest.diagnosis import Compared, Timed

FINDINGS = ("ceilings", "variants", "training", "watchdog", "prediction")
"""What a whole report has of a device besides cases and kernels; null where it was not measured."""


def _details() -> dict[str, Any]:
    """More facts about the current device."""
    if current_device() == "cpu":
        return {"compiler": compiler_version()}
    return {
        name: value if isinstance(value, int) else str(value)
        for name, value in mx.device_info().items()
    }


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
        self.values["devices"].append(
            {
                "device": current_device(),
                "device_name": device_name(),
                "details": _details(),
                "passed": True,
                "running": None,  # the case in progress
                "cases": [],
                "not_run": [],
                "kernels": [],
                "kernels_fault": None,
                **dict.fromkeys(FINDINGS),
            }
        )

    def begin(self, what: str) -> None:
        """Note that `what` runs now, in case the process dies in it."""
        self._device["running"] = what
        self.save()

    def add_case(self, compared: Compared) -> None:
        """Keep a case's outcome."""
        self._device["cases"].append(_case(compared))
        self._device["passed"] &= compared.passed
        self.save()

    def add_not_run(self, specialisations: Sequence[str]) -> None:
        """Keep the specialisations that no case ran."""
        self._device["not_run"] = list(specialisations)
        self._device["passed"] &= not specialisations
        self.save()

    def add_timed(self, timed: Timed) -> None:
        """Keep a kernel's time."""
        self._device["kernels"].append(_kernel(timed))
        self.save()

    def add_kernels_fault(self, fault: str) -> None:
        """Keep what ended the timing."""
        self._device["kernels_fault"] = fault
        self._device["passed"] = False
        self.save()

    def add(self, finding: str, values: dict[str, Any]) -> None:
        """Keep one of the `FINDINGS`; the device fails where there is a "fault" among `values`.

        A value that is not finite is null.
        """
        assert finding in FINDINGS
        self._device[finding] = finite(values)
        self._device["passed"] &= "fault" not in values
        self.save()

    def end_device(self) -> None:
        """Note that the device has run everything."""
        self._device["running"] = None
        self.save()

    def end(self) -> None:
        """Note that the report is complete."""
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
    if isinstance(values, float) and not math.isfinite(values):
        return None
    return values


def _case(compared: Compared) -> dict[str, Any]:
    return {
        "case": str(compared.case),
        "passed": compared.passed,
        "tolerance": compared.case.tolerance,
        "arrays": [
            {
                "array": outcome.array,
                # JSON has no infinity: null where a result is not finite or of another shape.
                "error": outcome.error if math.isfinite(outcome.error) else None,
                "passed": bool(outcome.passed),
            }
            for outcome in compared.outcomes
        ],
        "fault": compared.fault,
        "specialisations": compared.launched,
    }


def _kernel(timed: Timed) -> dict[str, Any]:
    return {
        "computation": timed.computation,
        "launch": timed.number,
        "specialisation": timed.specialisation,
        "milliseconds": timed.timing._asdict(),
        "function": timed.function,
        "bytes": timed.traffic,
        "gigabytes_per_second": timed.bandwidth,
        "operations": timed.operations,
        "gigaflops": timed.rate,
        "most_threads": timed.most_threads,
    }
