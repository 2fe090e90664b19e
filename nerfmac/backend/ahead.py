"""Compiling the CPU's kernels before they are launched, side by side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlx.core as mx

from nerfmac.backend.build import Library, compile_together
from nerfmac.backend.cpu_kernel import CpuKernel
from nerfmac.backend.fallback import backend
from nerfmac.backend.kernel import launched_by


def compile_ahead(build_graph: Callable[[], object]) -> None:
    """Compile all kernels that `build_graph` launches, as many at a time as there are cores.

    A launch would compile its kernel too, but one at a time. Here launches give zeros, so what
    `build_graph` does must not depend on values. Does nothing unless the CPU's kernels run: MLX
    compiles a GPU's. Raises `BuildError`.
    """
    if backend() != "cpu":
        return
    libraries: list[Library] = []

    def note(build: CpuKernel, **call: Any) -> list[mx.array]:
        libraries.append(build.library(**call))
        return list(map(mx.zeros, call["output_shapes"], call["output_dtypes"]))

    mx.disable_compile()  # what `mx.compile` made would keep these launches
    try:
        with launched_by(note):
            build_graph()
    finally:
        mx.enable_compile()
    compile_together(libraries)
