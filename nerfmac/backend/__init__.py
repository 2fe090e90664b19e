"""Compute devices, and kernels compiled for the current device."""

import mlx.core as mx

from nerfmac.backend.compiling import *
from nerfmac.backend.device import *
from nerfmac.backend.fallback import *
from nerfmac.backend.kernel import *
from nerfmac.backend.memory import *
from nerfmac.backend.variants import *
from nerfmac.backend.watchdog import *

Arrays = dict[str, mx.array]
"""Named arrays, such as parameters, gradients, or the state of a sampler."""

Shapes = dict[str, tuple[int, ...]]
"""Shapes of named arrays."""
