"""Report of a self-test: a JSON file to attach to a bug report. The file is written before and
after each test case. After a crash, it is therefore valid JSON with the earlier results and the
name of the test case that crashed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx

from nerfmac.app.measure.selftest.comparison import Compared
from nerfmac.backend import current_device, device_name
from nerfmac.backend.build import compiler_version
from nerfmac.backend.machine import software
from nerfmac.common.files import write_json


class Report:
    """Results of a self-test on one or more devices."""

    def __init__(self, path: Path | None) -> None:
        """Write an empty report to a JSON file, or store the results only in memory if `path` is
        None."""
        self.path = path
        self.values: dict[str, Any] = {"complete": False, **software(), "devices": []}
        self.save()

    @property
    def passed(self) -> bool:
        """Whether every device has passed."""
        return all(device["passed"] for device in self.values["devices"])

    def begin_device(self) -> None:
        """Add an empty entry for the current device. Later results are recorded in this entry."""
        if current_device() == "cpu":
            details: dict[str, Any] = {"compiler": compiler_version()}
        else:
            info = mx.device_info().items()
            details = {name: v if isinstance(v, int) else str(v) for name, v in info}
        self._device: dict[str, Any] = {
            "device": current_device(),
            "device_name": device_name(),
            "details": details,
            "passed": True,
            "running": None,  # the case in progress
            "cases": 0,  # number of finished cases
            "arrays": 0,  # number of compared arrays
            "failed": [],  # `Compared.to_json` of each case that failed
            "not_run": [],  # specializations that no case launched
        }
        self.values["devices"].append(self._device)

    def begin(self, what: str | None) -> None:
        """Record the test case that starts now, or None after the device's last test case."""
        self._device["running"] = what
        self.save()

    def add(self, outcome: Compared) -> None:
        """Record the result of a test case."""
        self._device["cases"] += 1
        self._device["arrays"] += len(outcome.outcomes)
        if not outcome.passed:
            self._device["failed"].append(outcome.to_json())
            self._device["passed"] = False
        self.save()

    def add_not_run(self, specializations: Sequence[str]) -> None:
        """Record the names of the reachable specializations that no test case launched."""
        self._device["not_run"] += specializations
        self._device["passed"] &= not specializations
        self.save()

    def end(self) -> None:
        """Mark the report as complete."""
        self.values["complete"] = True
        self.save()

    def save(self) -> None:
        """Write the results so far."""
        if self.path:
            write_json(self.path, self.values)
