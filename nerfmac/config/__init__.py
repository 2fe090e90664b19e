"""Configuration of a run: frozen dataclasses with default values, most of them from Instant-NGP
(Müller et al. 2022, and `base.json` in its repository). Lengths are in scene units. The docstring
of a setting is also the help text of its option in `nerfmac train --help-all`."""

from nerfmac.config.fields import HashGridConfig, NetworkConfig, VanillaConfig
from nerfmac.config.presets import AUTO, PRESET_NAMES, PRESETS, Config, override
from nerfmac.config.sampling import MarchConfig, OccupancyConfig
from nerfmac.config.settings import Range, Settings
from nerfmac.config.training import (
    REFINED,
    OptimizerConfig,
    ParameterGroup,
    RefineConfig,
    TrainConfig,
)

__all__ = [
    "AUTO",
    "PRESETS",
    "PRESET_NAMES",
    "REFINED",
    "Config",
    "HashGridConfig",
    "MarchConfig",
    "NetworkConfig",
    "OccupancyConfig",
    "OptimizerConfig",
    "ParameterGroup",
    "Range",
    "RefineConfig",
    "Settings",
    "TrainConfig",
    "VanillaConfig",
    "override",
]
