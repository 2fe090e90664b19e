"""Small kernels for the executor to run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx
import numpy as np

from nerfmac.backend.metal_text import Launch, exported
from tests.metal.execute import Executor

I = "const uint i = thread_position_in_grid.x;\n"  # noqa: E741
COUNT = np.arange(64, dtype=np.float32)

# Common parts of several kernels.
THREADGROUP = "threadgroup_barrier(mem_flags::mem_threadgroup);\n"
PLAIN = "reinterpret_cast<device float*>(out)"
ADD = "atomic_fetch_add_explicit(&out[0], 1.0f, memory_order_relaxed);\n"
HELD = "threadgroup float held[64];\n"


@dataclass
class Trial:
    """A small kernel with one input, `in`, and one output, `out`, of floats."""

    body: str
    given: np.ndarray = field(default_factory=lambda: COUNT)
    size: int = 64  # of the output
    grid: int = 64
    group: int = 64
    zeroed: bool = False
    atomic: bool = False

    def launch(self) -> Launch:
        return exported(*self._call())

    def __call__(self, executor: Executor) -> np.ndarray:
        (out,) = executor(self.launch(), [mx.array(self.given)])
        return np.array(out)

    def _call(self) -> tuple[Any, dict[str, Any]]:
        kernel = mx.fast.metal_kernel(
            name="trial",
            input_names=["in"],
            output_names=["out"],
            source=I + self.body,
            atomic_outputs=self.atomic,
        )
        call = {
            "inputs": [mx.array(self.given)],
            "grid": (self.grid, 1, 1),
            "threadgroup": (self.group, 1, 1),
            "output_shapes": [(self.size,)],
            "output_dtypes": [mx.float32],
        }
        if self.zeroed:
            call["init_value"] = 0
        return kernel, call


@dataclass
class Pair:
    """A wrong kernel with its error message, and the correct kernel."""

    wrong: Trial
    words: str  # a regular expression
    right: Trial
