"""Small kernels for the executor to run, and what right ones give."""

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


SHARED = "threadgroup float shared[64];\nshared[i % 64] = in[i];\n"

# Simdgroup 1 of the 40 threads is partial: it has 8 lanes.
RIGHT = {
    "sum over a partial simdgroup": (
        Trial("out[i] = simd_sum(in[i]);", grid=40, size=40, group=40),
        np.repeat([COUNT[:32].sum(), COUNT[32:40].sum()], [32, 8]),
    ),
    "sum over the lanes that have not returned": (
        Trial("out[i] = 0; if (i % 2) return; out[i] = simd_sum(in[i]);", size=32, grid=32),
        np.where(np.arange(32) % 2, 0, COUNT[:32:2].sum()),
    ),
    "prefix sum": (
        Trial("out[i] = simd_prefix_exclusive_sum(in[i]);"),
        np.concatenate([np.cumsum(part) - part for part in (COUNT[:32], COUNT[32:])]),
    ),
    "reduction over a threadgroup": (
        Trial(
            SHARED + THREADGROUP + "for (uint step = 32; step > 0; step /= 2) {\n"
            "if (i < step) shared[i] += shared[i + step];\n" + THREADGROUP + "}\n"
            "if (i == 0) out[0] = shared[0];", size=1,
        ),
        [COUNT.sum()],
    ),
    "floats below the normal ones, which are zero": (
        Trial("out[i] = in[i] * 1e-30f * 1e9f;", given=COUNT * np.float32(1e-15)),
        np.zeros(64),
    ),
    "precise functions are the same in all kernels, and exact where Metal's are": (
        Trial("out[i] = precise::sqrt(in[i]);", given=COUNT * COUNT), COUNT,
    ),
    "sum in device memory": (
        Trial(
            "atomic_fetch_add_explicit(&out[i % 3], in[i], memory_order_relaxed);",
            size=3, zeroed=True, atomic=True, group=16,
        ),
        [COUNT[k::3].sum() for k in range(3)],
    ),
}  # fmt: skip


@dataclass
class Pair:
    """A wrong kernel with its error message, and the correct kernel."""

    wrong: Trial
    words: str  # a regular expression
    right: Trial
