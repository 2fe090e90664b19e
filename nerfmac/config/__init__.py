"""Configuration of a run: frozen dataclasses with default values, most of them from Instant-NGP
(Müller et al. 2022, and `base.json` in its repository). Lengths are in scene units. The docstring
of a setting is also the help text of its option in `nerfmac train --help-all`."""

from nerfmac.config.fields import *
from nerfmac.config.presets import *
from nerfmac.config.sampling import *
from nerfmac.config.settings import *
from nerfmac.config.training import *
