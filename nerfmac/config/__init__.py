"""The settings of a run: small frozen records with defaults, read from JSON without unknown keys.

Most defaults are Instant-NGP's (Müller et al. 2022, and the `base.json` of its authors). Lengths
are in scene units; the scene of an object is the unit cube. A setting's docstring is also the help
text of its flag, as `nerfmac train --help` prints it.
"""

from nerfmac.config.fields import HashGridConfig, NetworkConfig, VanillaConfig
from nerfmac.config.optimizer import OptimizerConfig, ParameterGroup
from nerfmac.config.presets import PRESET_NAMES, PRESETS, Config, override
from nerfmac.config.refine import REFINED, RefineConfig
from nerfmac.config.sampling import MarchConfig, OccupancyConfig
from nerfmac.config.training import RanksConfig, TrainConfig

__all__ = [
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
    "RanksConfig",
    "RefineConfig",
    "TrainConfig",
    "VanillaConfig",
    "override",
]
