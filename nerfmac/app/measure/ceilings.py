"""Measurement of the maximum rates of the device. The bandwidth is measured with a copy of a large
array, by MLX on a GPU and by a kernel on all cores of a CPU. The rate of operations is measured
with a large matrix product, in the dtype of the kernels on a GPU and with NumPy on a CPU. A GPU may
compute matrix products on units that no other operation can use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np

from nerfmac.app.measure.timing import measure
from nerfmac.backend import current_device, working_dtype
from nerfmac.backend.cpu_kernel import CpuKernel
from nerfmac.backend.sources import dialect_source

_GPU_FLOATS, _CPU_FLOATS = 2**26, 2**24  # length of the copied array, larger than any cache
_SIZE, _CPU_SIZE = 4096, 2048  # rows and columns of the matrices
_CHUNK = 4096  # number of floats that a thread copies

# The kernel copies the first half of the array to the second half. If it wrote to an output array,
# the time would include the allocation and clearing of memory pages by the system.
_COPY = f"""
  const float* from = array + {_CHUNK} * thread_position_in_grid.x;
  float* to = const_cast<float*>(from) + {_CPU_FLOATS};
  for (unsigned i = 0; i < {_CHUNK}; ++i) to[i] = from[i];
  done[thread_position_in_grid.x] = to[0];
"""


class Ceilings(NamedTuple):
    """Measured maximum rates of the current device."""

    bandwidth: float  # bytes read plus bytes written, per second
    rate: float  # floating-point operations per second; a multiply-add is two
    method: str  # description of how both rates were measured

    def __str__(self) -> str:
        rates = f"{self.bandwidth / 1e9:.1f} GB/s, {self.rate / 1e9:.0f} GFLOP/s"
        return f"this machine's highest rates: {rates}, by {self.method}"


def measure_ceilings(seconds: float) -> Ceilings:
    """Measure both rates of the current device, each in about `seconds` seconds."""
    return _cpu_ceilings(seconds) if current_device() == "cpu" else _gpu_ceilings(seconds)


def _gpu_ceilings(seconds: float) -> Ceilings:
    array = mx.zeros(_GPU_FLOATS)
    matrix = mx.random.normal((_SIZE, _SIZE), key=mx.random.key(0)).astype(working_dtype())
    mx.eval(array, matrix)
    name = str(matrix.dtype).removeprefix("mlx.core.")
    return Ceilings(
        2 * array.nbytes / _lower_quartile(lambda: array + 1.0, seconds),
        2 * _SIZE**3 / _lower_quartile(lambda: matrix @ matrix, seconds),
        f"a copy of {array.nbytes / 1e6:.0f} MB and a {name} product of {_SIZE}x{_SIZE} matrices",
    )


def _cpu_ceilings(seconds: float) -> Ceilings:
    copy = CpuKernel("nerfmac_copy", ["array"], ["done"], _COPY, dialect_source("cpu"))
    array, chunks = mx.zeros(2 * _CPU_FLOATS), _CPU_FLOATS // _CHUNK
    matrix = np.random.default_rng(0).random((_CPU_SIZE, _CPU_SIZE), np.float32)
    mx.eval(array)
    launch: dict[str, Any] = {"inputs": [array], "grid": (chunks, 1, 1)}
    launch |= {"output_shapes": [(chunks,)], "output_dtypes": [mx.float32]}

    def multiplied() -> list[mx.array]:
        np.matmul(matrix, matrix)
        return []

    return Ceilings(
        # Half of the array is read, and half is written.
        array.nbytes / _lower_quartile(lambda: copy(**launch), seconds),
        2 * _CPU_SIZE**3 / _lower_quartile(multiplied, seconds),
        f"a copy of {array.nbytes / 2e6:.0f} MB on all cores and NumPy's float32 product of "
        f"{_CPU_SIZE}x{_CPU_SIZE} matrices",
    )


def _lower_quartile(compute: Callable[[], Any], seconds: float) -> float:
    """Return the lower quartile of the call time in seconds. Other programs hardly affect it."""
    return measure(compute, seconds=seconds, queued=True).low / 1e3
