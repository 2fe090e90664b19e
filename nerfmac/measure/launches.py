"""Recorded launches of kernels, and the work of each: bytes, operations and float atomics.

The work follows from the launch: the sizes of its arrays, its grid and its template. Bytes are
counted for two caches. `cached` assumes a perfect cache: each input is read once and each output
written once, or twice if the kernel adds to it. `uncached` assumes none: each access to a row of a
table moves that row. Unused samples of the batch count as samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import mlx.core as mx

from nerfmac.backend import kernel, uncompiled
from nerfmac.backend.device import pretended
from nerfmac.ops.networks_shape import NetworksShape

Build = Callable[..., list[mx.array]]
Call = dict[str, Any]

CORNERS = 8
"""Corners of a cell: rows of the table that the hash encoding of a point reads or adds to."""


class Work(NamedTuple):
    """Bytes, operations and float atomics; the module's docstring defines them."""

    cached: int = 0  # bytes
    uncached: int = 0  # bytes
    operations: int = 0
    """Floating-point operations; a multiply-add is two. Counted for the hash encoding and the
    networks only: other kernels have at most about one operation per byte, so bytes decide."""
    atomics: int = 0
    """Upper bound of atomic float additions: neighbours of a simdgroup in the same cell may add
    their sum at once."""

    def __add__(self, other: Work) -> Work:  # type: ignore[override]
        return Work(*map(sum, zip(self, other, strict=True)))

    def __floordiv__(self, parts: int) -> Work:
        """One of `parts` equal parts."""
        return Work(*(number // parts for number in self))

    def seconds(self, bandwidth: float, rate: float, *, cached: bool = False) -> float:
        """Roofline model: max(bytes / bandwidth, operations / rate), rates per second."""
        moved = self.cached if cached else self.uncached
        return max(moved / bandwidth, self.operations / rate)


def total(works: Iterable[Work]) -> Work:
    """The sum of several works."""
    return sum(works, Work())


@dataclass(frozen=True)
class Launched:
    """One launch: a built kernel, its arguments and its outputs."""

    build: Build
    call: Call
    outputs: list[mx.array]

    @property
    def name(self) -> str:
        """The name of the kernel's function."""
        return kernel.kernel_of(self.build).function

    @property
    def operation(self) -> str:
        """The operation that the kernel belongs to."""
        return kernel.kernel_of(self.build).operation

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Sorted names of the float dtypes that it reads and writes; without floats all dtypes."""
        dtypes = {array.dtype for array in self.call["inputs"]} | {*self.call["output_dtypes"]}
        floats = {dtype for dtype in dtypes if mx.issubdtype(dtype, mx.floating)} or dtypes
        return tuple(sorted(str(dtype).removeprefix("mlx.core.") for dtype in floats))

    def again(self) -> list[mx.array]:
        """Launch the kernel again with the same arguments; return the unevaluated outputs."""
        return self.build(**self.call)

    @property
    def work(self) -> Work:
        """The bytes that the launch moves, its operations and its float atomics."""
        outputs = zip(self.call["output_shapes"], self.call["output_dtypes"], strict=True)
        written = sum(prod(shape) * dtype.size for shape, dtype in outputs)
        inputs = dict(zip(kernel.kernel_of(self.build).inputs, self.call["inputs"], strict=True))
        read = sum(array.nbytes for array in inputs.values())
        adds = "init_value" in self.call
        moved = Work(read + (1 + adds) * written, read + (1 + adds) * written)
        if self.name == "draw_pixels":
            pixel = inputs["pixels"].nbytes // inputs["pixels"].shape[0]
            return moved + _rows(inputs["pixels"].nbytes, pixel, inputs["fractions"].shape[1])
        if self.operation == "networks":
            return moved + Work(operations=self._multiplications(inputs))
        if self.operation != "hash_encode" or "positions" not in inputs:
            return moved
        cells = inputs["positions"].shape[0] * inputs["scales"].size  # points x levels
        features = dict(self.call["template"])["FEATURES"]
        moved += Work(operations=cells * (15 + CORNERS * (2 + 2 * features)))
        if adds:
            floats = self.call["output_dtypes"][0] == mx.float32
            again = 2 * CORNERS * cells * features * 4 - written
            return moved + Work(0, again, 0, CORNERS * cells * features * floats)
        table = inputs["table"]
        return moved + _rows(table.nbytes, table.nbytes // table.shape[0], CORNERS * cells)

    def _multiplications(self, inputs: dict[str, mx.array]) -> int:
        """Operations of the networks' matrix products; a gradient takes three times the forward."""
        sizes = dict(self.call["template"])
        if "features" not in inputs:
            return 0
        layers = sizes["DENSITY_LAYERS"], sizes.get("COLOUR_LAYERS", 1)
        shape = NetworksShape(sizes["IN"], sizes["WIDTH"], *layers)
        has_colour = self.name != "networks_density"
        weights = shape.density.weights + has_colour * shape.colour.weights
        times = 6 if self.name == "networks_gradient" else 2
        return times * inputs["features"].shape[0] * weights


def _rows(whole: int, row: int, rows: int) -> Work:
    """Correction for gathering `rows` rows of `row` bytes, not all `whole` bytes of an array."""
    return Work(min(rows * row, whole) - whole, rows * row - whole)


def launches(compute: Callable[[], Any], *, on_metal: bool = False) -> list[Launched]:
    """Record the launches of `compute`, in order; its results need not be evaluated.

    With `on_metal` they are the launches that an Apple GPU would get, on any machine: nothing is
    launched, and outputs are zeros of the right shapes.
    """
    recorded: list[Launched] = []

    def launch(build: Build, **call: Any) -> list[mx.array]:
        zeros = map(mx.zeros, call["output_shapes"], call["output_dtypes"])
        recorded.append(Launched(build, call, list(zeros) if on_metal else build(**call)))
        return recorded[-1].outputs

    with ExitStack() as stack:
        if on_metal:
            stack.enter_context(uncompiled())
            stack.enter_context(pretended("metal"))
        stack.enter_context(kernel.launched_by(launch))
        compute()
    return recorded
