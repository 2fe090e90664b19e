"""Compute devices, and kernels compiled for the current device."""

import mlx.core as mx

from nerfmac.backend.compiling import Traces as Traces
from nerfmac.backend.compiling import compile_seldom as compile_seldom
from nerfmac.backend.compiling import compiled_with_records as compiled_with_records
from nerfmac.backend.compiling import uncompiled as uncompiled
from nerfmac.backend.compiling import unfused as unfused
from nerfmac.backend.device import DEVICES as DEVICES
from nerfmac.backend.device import choose_device as choose_device
from nerfmac.backend.device import current_device as current_device
from nerfmac.backend.device import device_name as device_name
from nerfmac.backend.fallback import backend as backend
from nerfmac.backend.fallback import kernels_disabled as kernels_disabled
from nerfmac.backend.fallback import references as references
from nerfmac.backend.fallback import runs_kernel as runs_kernel
from nerfmac.backend.fallback import working_dtype as working_dtype
from nerfmac.backend.kernel import Kernel as Kernel
from nerfmac.backend.kernel import Signature as Signature
from nerfmac.backend.kernel import compile_ahead as compile_ahead
from nerfmac.backend.kernel import group_threads as group_threads
from nerfmac.backend.kernel import simd_width as simd_width
from nerfmac.backend.memory import memory_bytes as memory_bytes
from nerfmac.backend.variants import repeatable as repeatable
from nerfmac.backend.variants import using as using
from nerfmac.backend.variants import variant as variant
from nerfmac.backend.watchdog import to_numpy as to_numpy

Arrays = dict[str, mx.array]
"""Named arrays, such as parameters, gradients, or the state of a sampler."""

Shapes = dict[str, tuple[int, ...]]
"""Shapes of named arrays."""
