"""A selftest's findings as one JSON file, to attach to a bug report.

The file is always complete: it is written again after each finding, and before each case with the
case's name. So even after a crash of the process it has all earlier findings and the crashed case.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import mlx.core as mx

from nerfmac.backend import current_device, device_name
from nerfmac.backend.build import compiler_version
from nerfmac.backend.machine import software
from nerfmac.files import write_json
from nerfmac.measure.selftest.findings import FINDINGS


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
