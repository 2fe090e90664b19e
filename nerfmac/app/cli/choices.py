"""Types with the allowed values of options that several commands share."""

from typing import Literal

Device = Literal["auto", "metal", "cuda", "cpu"]
Preset = Literal["auto", "tiny", "small", "base", "big"]
