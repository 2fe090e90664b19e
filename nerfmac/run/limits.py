"""How long a training may be asked to last."""

from __future__ import annotations

from nerfmac.common import checks
from nerfmac.common.checks import InputError


def check_limits(steps: int | None, seconds: float | None) -> None:
    """Raise `InputError` for limits of training that say nothing, or contradict each other."""
    if steps is not None and seconds is not None:
        raise InputError("both steps and seconds are given; expected one of them")
    if steps is not None:
        checks.number("steps", steps, low=1, whole=True)
    if seconds is not None:
        checks.number("seconds", seconds, low=1e-3)
