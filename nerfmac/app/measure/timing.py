"""Timing of device computations after a warm-up, with median and quartiles, and measurement of the
maximum rates of the device.

The bandwidth is measured with a copy of a large array, by MLX on a GPU and by a kernel on all cores
of a CPU. The rate of operations is measured with a large matrix product, in the dtype of the
kernels on a GPU and with NumPy on a CPU. A GPU may compute matrix products on units that no other
operation can use.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count, islice
from math import ceil
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from nerfmac.backend import CpuKernel, current_device, dialect_source, working_dtype

QUEUE_SECONDS = 0.02  # Target duration of a queue, a group of calls evaluated together.
QUEUE = 16  # Maximum number of calls in a queue. Memory holds the results of all calls.
LEAST_CALLS, MOST_CALLS = 5, 100  # Limits of the number of timed calls or queues.


class Timing(NamedTuple):
    """Median and quartiles of the time of one call, in milliseconds."""

    median: float
    low: float  # lower quartile
    high: float  # upper quartile
    calls: int  # number of timed calls or queues

    @classmethod
    def of(cls, seconds: Sequence[float] | npt.NDArray[np.floating]) -> Timing:
        """Return the median and the quartiles of call times that are given in seconds."""
        low, median, high = (1e3 * float(q) for q in np.quantile(seconds, [0.25, 0.5, 0.75]))
        return cls(median, low, high, len(seconds))

    def times(self, factor: float) -> Timing:
        """Return the timing multiplied by `factor`."""
        return Timing(factor * self.median, factor * self.low, factor * self.high, self.calls)

    def less(self, other: Timing) -> Timing:
        """Subtract the median of `other`. Negative differences, caused by noise, become zero."""
        median, low, high = (max(0.0, own - other.median) for own in self[:3])
        return Timing(median, low, high, self.calls)

    def __str__(self) -> str:
        return f"{self.median:.2f} ms ({self.low:.2f} to {self.high:.2f})"


def measure(compute: Callable[[], Any], *, seconds: float = 1.0, queued: bool = False) -> Timing:
    """Time a function that returns unevaluated arrays, for about `seconds`, after a warm-up. The
    arrays are evaluated in each call. With `queued`, the arrays of several calls are evaluated
    together, so that the mean time includes little overhead for starting and synchronizing."""

    def run(calls: int) -> float:
        start = time.perf_counter()
        mx.eval([compute() for _ in range(calls)])
        return (time.perf_counter() - start) / calls

    run(1)
    fitting = min(QUEUE, ceil(QUEUE_SECONDS / max(run(1), 1e-6))) if queued else 1
    return Timing.of(list(islice(repeated(lambda: run(fitting), seconds=seconds), MOST_CALLS)))


def repeated(
    call: Callable[[], float], *, seconds: float, rounds: int | None = None
) -> Iterator[float]:
    """Call a function repeatedly, and yield its results, except the first, which is a warm-up.

    Args:
        call: Function that returns its time in seconds.
        seconds: Approximate total time.
        rounds: Number of calls, instead of `seconds`.
    """
    call()
    begin = time.perf_counter()
    for number in count():
        is_enough = number >= LEAST_CALLS and time.perf_counter() - begin >= seconds
        if is_enough if rounds is None else number == rounds:
            return
        yield call()


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

    @classmethod
    def measured(cls, seconds: float) -> Ceilings:
        """Measure both rates of the current device, each in about `seconds` seconds."""
        moved, copy, rows, multiply, method = _on_cpu() if current_device() == "cpu" else _on_gpu()
        copying, multiplying = (
            measure(compute, seconds=seconds, queued=True) for compute in (copy, multiply)
        )
        # Other programs hardly affect the lower quartiles.
        return cls(1e3 * moved / copying.low, 2e3 * rows**3 / multiplying.low, method)

    def __str__(self) -> str:
        rates = f"{self.bandwidth / 1e9:.1f} GB/s, {self.rate / 1e9:.0f} GFLOP/s"
        return f"this machine's highest rates: {rates}, by {self.method}"


def _on_gpu() -> tuple[int, Callable[[], Any], int, Callable[[], Any], str]:
    """Return the number of bytes that a copy reads and writes, the copy, the number of rows of two
    matrices, their product, and a description."""
    array = mx.zeros(_GPU_FLOATS)
    matrix = mx.random.normal((_SIZE, _SIZE), key=mx.random.key(0)).astype(working_dtype())
    mx.eval(array, matrix)
    name, size = str(matrix.dtype).removeprefix("mlx.core."), f"{array.nbytes / 1e6:.0f} MB"
    method = f"a copy of {size} and a {name} product of {_SIZE}x{_SIZE} matrices"
    return 2 * array.nbytes, lambda: array + 1.0, _SIZE, lambda: matrix @ matrix, method


def _on_cpu() -> tuple[int, Callable[[], Any], int, Callable[[], Any], str]:
    """Return the same as `_on_gpu`. Half of the array is read, and half is written."""
    kernel = CpuKernel("nerfmac_copy", ["array"], ["done"], _COPY, dialect_source("cpu"))
    array, chunks = mx.zeros(2 * _CPU_FLOATS), _CPU_FLOATS // _CHUNK
    matrix = np.random.default_rng(0).random((_CPU_SIZE, _CPU_SIZE), np.float32)
    mx.eval(array)
    launch: dict[str, Any] = {"inputs": [array], "grid": (chunks, 1, 1)}
    launch |= {"output_shapes": [(chunks,)], "output_dtypes": [mx.float32]}

    def multiply() -> list[mx.array]:
        np.matmul(matrix, matrix)
        return []

    size = f"{array.nbytes / 2e6:.0f} MB on all cores"
    method = f"a copy of {size} and NumPy's float32 product of {_CPU_SIZE}x{_CPU_SIZE} matrices"
    return array.nbytes, lambda: kernel(**launch), _CPU_SIZE, multiply, method
