"""What ranks that train one model together send each other, and when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from nerfmac.common import checks

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

    def __post_init__(self) -> None:
        checks.number("ranks.every", self.every, whole=True)
        if self.every not in EVERY:
            raise checks.InputError(f"ranks.every is {self.every}; expected 1, 2, 4 or 8")
        checks.choice("ranks.words", self.words, ("bfloat16", "float32"))
