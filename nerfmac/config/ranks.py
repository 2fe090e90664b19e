"""Settings of the exchange between ranks that train one model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from nerfmac.common import checks


@dataclass(frozen=True)
class RanksConfig:
    """The exchange between ranks; a run on one device has none."""

    allreduce_dtype: Literal["bfloat16", "float32"] = "bfloat16"
    """Type in which large arrays are sent between ranks; float32 is exact but sends twice the
    bytes."""

    def __post_init__(self) -> None:
        checks.choice("ranks.allreduce_dtype", self.allreduce_dtype, ("bfloat16", "float32"))
