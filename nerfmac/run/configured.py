"""`configured`: a preset for the current device."""

from __future__ import annotations

from nerfmac.backend import current_device, memory_bytes
from nerfmac.config import Config, override
from nerfmac.presets import preset as preset_of


def configured(preset: str, seed: int, model: str = "hash") -> Config:
    """The preset's configuration for the current device. Raises `InputError`."""
    return override(preset_of(preset, current_device(), memory_bytes(), model), seed=seed)
