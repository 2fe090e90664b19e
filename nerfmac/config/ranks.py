"""Settings of the exchange between ranks that train one model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from nerfmac.common import checks

EVERY = (1, 2, 4, 8)
"""Allowed numbers of steps between exchanges; each divides the 8 steps between updates of the
average."""


@dataclass(frozen=True)
class RanksConfig:
    """The exchange between ranks; a run on one device has none."""

    every: int = 1
    """Steps between exchanges: 1, 2, 4 or 8. With 1, gradients are averaged: N ranks take the steps
    of one rank with N times the rays. With more, each rank takes steps of its own and parameters
    are averaged (local SGD), which loads a slow network less."""
    allreduce_dtype: Literal["bfloat16", "float32"] = "bfloat16"
    """Type in which large arrays are sent between ranks; float32 is exact and twice the bytes."""

    def __post_init__(self) -> None:
        checks.number("ranks.every", self.every, whole=True)
        if self.every not in EVERY:
            raise checks.InputError(f"ranks.every is {self.every}; expected 1, 2, 4 or 8")
        checks.choice("ranks.allreduce_dtype", self.allreduce_dtype, ("bfloat16", "float32"))
