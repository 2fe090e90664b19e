"""What a whole selftest's report says of a machine besides its kernels: how fast, how good."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nerfmac.backend import current_device, memory_bytes, using
from nerfmac.measure.bench import Ceilings, measure_ceilings
from nerfmac.measure.selftest import MEASURED, prediction, quality, trained, watchdog
from nerfmac.measure.tuning import try_variants
from nerfmac.presets import preset
from nerfmac.run import Run

SECONDS = 30.0
"""Of training."""
_CEILING_SECONDS = 1.0


class MachineReport:
    """Finds out about the current device; the methods are the findings, in the order of `Report`.

    Each gives JSON values. What a later one needs, an earlier one has found.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds  # of training
        self._chosen: Mapping[str, str] = {}
        self._ceilings: Ceilings
        self._run: Run

    def find(self, finding: str) -> dict[str, Any]:
        """The finding of that name, with the variants that were found quickest."""
        with using(**self._chosen):
            found: dict[str, Any] = getattr(self, finding)()
        return found

    def ceilings(self) -> dict[str, Any]:
        """The highest bandwidth and rate that this machine shows."""
        self._ceilings = measure_ceilings(_CEILING_SECONDS)
        return self._ceilings._asdict()

    def variants(self) -> dict[str, Any]:
        """Every variant's time. The quickest are used from here on, and not kept."""
        config = preset("auto", current_device(), memory_bytes())
        found = list(try_variants(config))
        self._chosen = {each.operation: each.chosen for each in found}
        return {each.operation: each.to_json() for each in found}

    def training(self) -> dict[str, Any]:
        """Quality after some seconds on the built-in scene."""
        self._run = trained(self._seconds)
        return quality(self._run)

    def watchdog(self) -> dict[str, Any]:
        """The longest launch, beside what is allowed."""
        return watchdog(self._run)

    def prediction(self) -> dict[str, Any]:
        """A step's time beside its estimate."""
        return prediction(self._run, self._ceilings)


def in_words(finding: str, values: Mapping[str, Any]) -> str:
    """A finding in one line, for people."""
    v = values
    if finding == "ceilings":
        return f"{v['bandwidth'] / 1e9:.3g} GB/s, {v['rate'] / 1e12:.3g} TFLOPS"
    if finding == "variants":
        return ", ".join(f"{name}={tuned['chosen']}" for name, tuned in v.items())
    if finding == "training":
        step = f"{v['steps']} steps of {v['step_ms']:.2f} ms"
        return f"{v['psnr']:.2f} dB after {v['seconds']:.1f} s, {step}, preset {v['preset']}"
    if finding == "watchdog":
        longest = f"the longest launch takes {v['longest_ms']:.1f} ms ({v['launch']})"
        return f"{longest}; at most {v['bound_ms']:.0f} are wanted"
    least, most, by = v["cached_ms"], v["uncached_ms"], v["chip"]["name"]
    rates = "its highest rates" if by == MEASURED else f"an {by}'s published rates"
    predicted = f"{least:.2f} to {most:.2f} ms by its bytes and operations at {rates}"
    times = f"{v['measured_over_cached']:.1f} times the least"
    return f"a step took {v['measured_ms']:.2f} ms; predicted {predicted}: {times}"
