"""What ranks that train one model together send each other, and when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from nerfmac import checks

EVERY = (1, 2, 4, 8)
"""Allowed steps between exchanges: they divide the steps between updates of the average."""


@dataclass(frozen=True)
class RanksConfig:
    """The exchange between ranks; a run on one device has none."""

    every: int = 1
    """Steps between exchanges: 1, 2, 4 or 8. With 1 the ranks' gradients are averaged, so that N
    ranks take the steps of one with N times the rays. With more, for slow networks, each takes
    steps of its own, and then their parameters are averaged."""
    words: Literal["bfloat16", "float32"] = "bfloat16"
    """The type in which large arrays are sent."""
    late: bool = False
    """Whether tables' gradients are sent while the next step is computed, and move them after it.
    Networks' are sent at once. Goes with every 1."""

    def __post_init__(self) -> None:
        checks.number("ranks.every", self.every, whole=True)
        if self.every not in EVERY:
            raise checks.InputError(f"ranks.every is {self.every}; expected 1, 2, 4 or 8")
        checks.flag("ranks.late", self.late)
        if self.late and self.every != 1:
            raise checks.InputError(
                f"ranks.late goes with ranks.every 1, not {self.every}; expected one of them"
            )
        checks.choice("ranks.words", self.words, ("bfloat16", "float32"))
