"""Types with the allowed values of options that several commands share."""

from typing import Literal

from nerfmac.config.presets import Model as Model

Device = Literal["auto", "metal", "cuda", "cpu"]
Preset = Literal["auto", "tiny", "small", "base", "big"]
