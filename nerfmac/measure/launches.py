"""The kernels that a computation launches: names, arguments, and the bytes they must move."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any

import mlx.core as mx

from nerfmac.backend import kernel

Build = Callable[..., list[mx.array]]
Call = dict[str, Any]


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
        """Types of the floats that it reads and writes, sorted, or those of its integers."""
        arrays = {each.dtype for each in self.call["inputs"]} | {*self.call["output_dtypes"]}
        floats = {each for each in arrays if mx.issubdtype(each, mx.floating)} or arrays
        return tuple(sorted(str(each).removeprefix("mlx.core.") for each in floats))

    def again(self) -> list[mx.array]:
        """Launch the same again; return the outputs, not evaluated."""
        return self.build(**self.call)

    @property
    def traffic(self) -> int:
        """Bytes: each array is moved once, or twice if the kernel adds into it."""
        outputs = zip(self.call["output_shapes"], self.call["output_dtypes"], strict=True)
        written = sum(prod(shape) * dtype.size for shape, dtype in outputs)
        times = 2 if "init_value" in self.call else 1
        return times * written + sum(each.nbytes for each in self.call["inputs"])


def launches(compute: Callable[[], Any]) -> list[Launched]:
    """The launches of `compute`, in order; it need not evaluate its results."""
    found: list[Launched] = []

    def launch(build: Build, **call: Any) -> list[mx.array]:
        found.append(Launched(build, call, build(**call)))
        return found[-1].outputs

    with kernel.launched_by(launch):
        compute()
    return found


@contextmanager
def replayed(before: Sequence[Launched], names: Container[str]) -> Iterator[None]:
    """Within it kernels of these names are not launched: their outputs are those of `before`.

    `before` is a recording of the same computation: every launch in order.
    The inputs of a kernel that is replayed are still computed.
    """
    remaining = iter(before)

    def launch(build: Build, **call: Any) -> list[mx.array]:
        launched = next(remaining)
        if launched.name not in names:
            return build(**call)
        given: list[mx.array] = mx.depends(launched.outputs, call["inputs"])
        return given

    with kernel.launched_by(launch):
        yield
