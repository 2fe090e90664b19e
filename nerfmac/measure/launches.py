"""Recorded launches of kernels, and the bytes, operations and float atomics that each one needs.

Everything is read from a launch: the sizes of its arrays, its grid and its template. Bytes moved
are counted for two caches. `cached` is a perfect cache: each input is read once and each output
written once, or twice if the kernel adds into it. `uncached` is no cache: each row that a kernel
gathers from a table, or adds to one, is moved every time. Every slot counts as a sample.
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
"""Corners of a cell, whose rows of the table a point of the hash encoding reads or adds to."""


class Work(NamedTuple):
    """Bytes, operations and atomics, counted as the module's docstring says."""

    cached: int = 0  # bytes
    uncached: int = 0  # bytes
    operations: int = 0
    """Floating-point operations, a multiply-add two. They are counted for the encoding and the
    networks; other kernels have at most about one operation a byte, so that bytes decide."""
    atomics: int = 0
    """Float additions to memory that other threads add to as well, at most: neighbours of a
    simdgroup that lie in one cell add their sum."""

    def __add__(self, other: Work) -> Work:  # type: ignore[override]
        return Work(*map(sum, zip(self, other, strict=True)))

    def __floordiv__(self, parts: int) -> Work:
        """One of `parts` equal parts."""
        return Work(*(number // parts for number in self))

    def seconds(self, bandwidth: float, rate: float, *, cached: bool = False) -> float:
        """The longer of two times: moving the bytes, and computing. Both rates are a second."""
        moved = self.cached if cached else self.uncached
        return max(moved / bandwidth, self.operations / rate)


def total(works: Iterable[Work]) -> Work:
    """The sum of several works."""
    return sum(works, Work())


@dataclass(frozen=True)
class Launched:
    """One launch: a built kernel, the arguments of its launch and its outputs."""

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
        """Types of the floats that it reads and writes, sorted; without floats its integers'."""
        arrays = {each.dtype for each in self.call["inputs"]} | {*self.call["output_dtypes"]}
        floats = {each for each in arrays if mx.issubdtype(each, mx.floating)} or arrays
        return tuple(sorted(str(each).removeprefix("mlx.core.") for each in floats))

    def again(self) -> list[mx.array]:
        """Launch the same again; return the outputs, not evaluated."""
        return self.build(**self.call)

    @property
    def work(self) -> Work:
        """What the launch moves and computes."""
        outputs = zip(self.call["output_shapes"], self.call["output_dtypes"], strict=True)
        written = sum(prod(shape) * dtype.size for shape, dtype in outputs)
        inputs = dict(zip(kernel.kernel_of(self.build).inputs, self.call["inputs"], strict=True))
        read = sum(each.nbytes for each in inputs.values())
        adds = "init_value" in self.call
        moved = Work(read + (1 + adds) * written, read + (1 + adds) * written)
        if self.name == "draw_pixels":
            pixel = inputs["pixels"].nbytes // inputs["pixels"].shape[0]
            return moved + _rows(inputs["pixels"].nbytes, pixel, inputs["fractions"].shape[1])
        if self.operation == "networks":
            return moved + Work(operations=self._multiplications(inputs))
        if self.operation != "hash_encode" or "positions" not in inputs:
            return moved
        cells = inputs["positions"].shape[0] * inputs["scales"].size  # of all points and levels
        features = dict(self.call["template"])["FEATURES"]
        moved += Work(operations=cells * (15 + CORNERS * (2 + 2 * features)))
        if adds:
            floats = self.call["output_dtypes"][0] == mx.float32
            again = 2 * CORNERS * cells * features * 4 - written
            return moved + Work(0, again, 0, CORNERS * cells * features * floats)
        table = inputs["table"]
        return moved + _rows(table.nbytes, table.nbytes // table.shape[0], CORNERS * cells)

    def _multiplications(self, inputs: dict[str, mx.array]) -> int:
        """Operations of the networks' products: a gradient takes three times those of forward."""
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
    """The correction for `rows` rows of `row` bytes gathered from an array of `whole` bytes."""
    return Work(min(rows * row, whole) - whole, rows * row - whole)


def launches(compute: Callable[[], Any], *, on_metal: bool = False) -> list[Launched]:
    """The launches of `compute` in order; its results need not be evaluated.

    With `on_metal` they are those that an Apple GPU would get, on any machine: nothing is launched,
    and their outputs are zeros of the right shapes.
    """
    found: list[Launched] = []

    def launch(build: Build, **call: Any) -> list[mx.array]:
        zeros = map(mx.zeros, call["output_shapes"], call["output_dtypes"])
        found.append(Launched(build, call, list(zeros) if on_metal else build(**call)))
        return found[-1].outputs

    with ExitStack() as stack:
        if on_metal:
            stack.enter_context(uncompiled())
            stack.enter_context(pretended("metal"))
        stack.enter_context(kernel.launched_by(launch))
        compute()
    return found
