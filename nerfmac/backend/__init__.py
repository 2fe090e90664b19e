"""Compute devices, and kernels compiled for the current device."""

import mlx.core as mx

from nerfmac.backend.compiling import (
    Traces as Traces,
    compile_seldom as compile_seldom,
    compiled_with_records as compiled_with_records,
    uncompiled as uncompiled,
    unfused as unfused,
)
from nerfmac.backend.device import (
    DEVICES as DEVICES,
    choose_device as choose_device,
    current_device as current_device,
    device_name as device_name,
)
from nerfmac.backend.fallback import (
    backend as backend,
    kernels_disabled as kernels_disabled,
    references as references,
    runs_kernel as runs_kernel,
    working_dtype as working_dtype,
)
from nerfmac.backend.kernel import (
    Kernel as Kernel,
    Signature as Signature,
    compiled_ahead as compiled_ahead,
    group_threads as group_threads,
    simd_width as simd_width,
)
from nerfmac.backend.memory import memory_bytes as memory_bytes
from nerfmac.backend.variants import repeatable as repeatable, using as using, variant as variant
from nerfmac.backend.watchdog import to_numpy as to_numpy

Arrays = dict[str, mx.array]
"""Named arrays, such as parameters, gradients, or the state of a sampler."""

Shapes = dict[str, tuple[int, ...]]
"""Shapes of named arrays."""
