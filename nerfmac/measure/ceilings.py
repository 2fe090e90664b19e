"""The device's highest rates, measured: bytes a second and operations a second.

On a GPU they are measured by adding a number to a large array, and by a large matrix product in the
kernels' type, which may run on units for matrix products only. On a CPU, MLX's operations use one
core, and its matrix product may be slow. So there two small kernels of our own, on all cores, copy
an array, and multiply and add in registers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np

from nerfmac.backend import current_device, working_dtype
from nerfmac.backend.cpu_kernel import cpu_kernel
from nerfmac.backend.device import processors
from nerfmac.backend.sources import dialect_source
from nerfmac.measure.timing import measure

_GPU_FLOATS, _CPU_FLOATS = 2**26, 2**24  # of the array copied: larger than any cache
_SIZE = 4096  # rows and columns of the matrices
_CHUNK = 4096  # floats that a thread copies
_ROUNDS = 2**16  # of multiply-adds in registers
_PIECES = 16  # of arithmetic for each core, small so that the last one to finish delays little

# Copies the array's first half to its second half, which nothing else uses. A kernel's output would
# be new memory, and the time would include that in which the system finds and clears its pages.
_COPY = f"""
  const float* from = array + {_CHUNK} * thread_position_in_grid.x;
  float* to = const_cast<float*>(from) + {_CPU_FLOATS};
  for (unsigned i = 0; i < {_CHUNK}; ++i) to[i] = from[i];
  done[thread_position_in_grid.x] = to[0];
"""

# Eight sums of sixteen floats hide a multiply-add's latency, and fit in most CPUs' registers.
_ARITHMETIC = f"""
  typedef float Floats __attribute__((vector_size(64)));
  const float own = from[0] + thread_position_in_grid.x;
  const Floats by = Floats{{}} + from[1], more = Floats{{}} + from[2];
  Floats a = Floats{{}} + own, b = a + 1, c = a + 2, d = a + 3;
#ifdef __AVX512F__
  Floats e = a + 4, f = a + 5, g = a + 6, h = a + 7;
#endif
  for (int round = 0; round < {_ROUNDS}; ++round) {{
    a = a * by + more; b = b * by + more; c = c * by + more; d = d * by + more;
#ifdef __AVX512F__
    e = e * by + more; f = f * by + more; g = g * by + more; h = h * by + more;
#endif
  }}
  a = a + b + c + d;
#ifdef __AVX512F__
  a = a + e + f + g + h;
  sums[1] = 8;
#else
  sums[1] = 4;
#endif
  float sum = 0;
  for (int i = 0; i < 16; ++i) sum += a[i];
  sums[2 + thread_position_in_grid.x] = sum;
"""


class Ceilings(NamedTuple):
    """The highest rates that were measured on the current device."""

    bandwidth: float  # bytes a second, read and written
    rate: float  # floating-point operations a second; a multiply-add is two
    method: str  # how both were measured, in words

    def __str__(self) -> str:
        rates = f"{self.bandwidth / 1e9:.1f} GB/s, {self.rate / 1e9:.0f} GFLOP/s"
        return f"at most {rates}, measured now by {self.method}"


def measure_ceilings(seconds: float) -> Ceilings:
    """Measure both on the current device, about `seconds` each."""
    return _of_cpu(seconds) if current_device() == "cpu" else _of_gpu(seconds)


def _of_gpu(seconds: float) -> Ceilings:
    array = mx.zeros(_GPU_FLOATS)
    matrix = mx.random.normal((_SIZE, _SIZE), key=mx.random.key(0)).astype(working_dtype())
    mx.eval(array, matrix)
    name = str(matrix.dtype).removeprefix("mlx.core.")
    return Ceilings(
        2 * array.nbytes / _fastest(lambda: array + 1.0, seconds),
        2 * _SIZE**3 / _fastest(lambda: matrix @ matrix, seconds),
        f"a copy of {array.nbytes / 1e6:.0f} MB and a {name} product of {_SIZE}x{_SIZE} matrices",
    )


def _of_cpu(seconds: float) -> Ceilings:
    header = dialect_source("cpu")
    copy = cpu_kernel("nerfmac_copy", ["array"], ["done"], _COPY, header)
    arithmetic = cpu_kernel("nerfmac_arithmetic", ["from"], ["sums"], _ARITHMETIC, header)
    array, numbers = mx.zeros(2 * _CPU_FLOATS), mx.array([0.5, 0.25, 0.5])
    mx.eval(array, numbers)
    pieces = _PIECES * processors()

    def copied() -> list[mx.array]:
        chunks = _CPU_FLOATS // _CHUNK
        return copy(
            inputs=[array],
            output_shapes=[(chunks,)],
            output_dtypes=[mx.float32],
            grid=(chunks, 1, 1),
        )

    def computed() -> list[mx.array]:
        return arithmetic(
            inputs=[numbers],
            output_shapes=[(2 + pieces,)],
            output_dtypes=[mx.float32],
            grid=(pieces, 1, 1),
        )

    sums = int(np.array(computed()[0])[1])
    return Ceilings(
        array.nbytes / _fastest(copied, seconds),  # half of it read, half written
        2 * 16 * sums * _ROUNDS * pieces / _fastest(computed, seconds),
        f"a copy of {array.nbytes / 2e6:.0f} MB and float32 multiply-adds in registers, by kernels "
        "of our own on all cores",
    )


def _fastest(compute: Callable[[], Any], seconds: float) -> float:
    """Seconds of a call: the lower quartile, on which other programs have little effect."""
    return measure(compute, seconds=seconds, queued=True).low / 1e3
