"""Compiling kernels before they are launched, in parallel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlx.core as mx

from nerfmac.backend.build import Cached, compile_together
from nerfmac.backend.compiling import uncompiled
from nerfmac.backend.cpu_kernel import CpuKernel
from nerfmac.backend.cuda_kernel import CudaKernel
from nerfmac.backend.fallback import backend
from nerfmac.backend.kernel import launched_by


def compile_ahead(build_graph: Callable[[], object]) -> None:
    """Compile all kernels that `build_graph` launches, as many at a time as there are cores.

    Launches compile their kernels too, but one after the other. Here launches give zeros, so
    `build_graph` must not depend on values. Does nothing on an Apple GPU, whose kernels the
    system compiles. Raises `BuildError`.
    """
    if backend() not in ("cpu", "cuda"):
        return
    libraries: list[Cached] = []

    def note(build: CpuKernel | CudaKernel, **call: Any) -> list[mx.array]:
        libraries.append(build.library(**call))
        return list(map(mx.zeros, call["output_shapes"], call["output_dtypes"]))

    with uncompiled(), launched_by(note):  # compiled functions would keep these launches
        build_graph()
    compile_together(libraries)
