"""Recording of kernel launches and computation of their work from array sizes, grids, and template
arguments. `cached` bytes assume a perfect cache: each array is read or written once. If the kernel
adds to an output, the output is also read once. `uncached` bytes assume no cache: each access to a
row of a table moves this row. Unused slots of the sample budget count as samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import chain
from math import prod
from typing import Any, NamedTuple

import mlx.core as mx

from nerfmac.backend import kernel, uncompiled
from nerfmac.ops.hash_encode import CORNERS
from nerfmac.ops.networks import NetworksShape
from nerfmac.training.state import TrainState
from nerfmac.training.trainer import Trainer

Build = Callable[..., list[mx.array]]
Call = dict[str, Any]


class Work(NamedTuple):
    """Work of one or more kernel launches."""

    cached: int = 0  # Number of bytes, assuming a perfect cache (see the module docstring).
    uncached: int = 0  # Number of bytes, assuming no cache (see the module docstring).
    operations: int = 0
    """Number of floating-point operations. A multiply-add counts as two. Only the operations of the
    hash encoding and the networks are counted. Other kernels have at most about one operation per
    byte, so that memory bandwidth limits their speed."""
    float_atomics: int = 0  # Maximum number; simdgroups may first sum points in one cell.
    integer_atomics: int = 0  # Maximum number of atomic integer additions.
    launches: int = 0  # Number of launches, including launches that fill an output with zeros.

    def __add__(self, other: Work) -> Work:  # type: ignore[override]
        return Work(*map(sum, zip(self, other, strict=True)))

    @property
    def atomics(self) -> int:
        """Maximum number of atomic additions of floats and integers."""
        return self.float_atomics + self.integer_atomics

    def seconds(self, bandwidth: float, rate: float, *, cached: bool = False) -> float:
        """Return seconds in the roofline model: max(bytes / bandwidth, operations / rate)."""
        moved = self.cached if cached else self.uncached
        return max(moved / bandwidth, self.operations / rate)

    def __floordiv__(self, parts: int) -> Work:
        """Divide the work by `parts`, rounding down."""
        return Work(*(number // parts for number in self))


@dataclass(frozen=True)
class Launched:
    """Recorded launch of a built kernel, with its arguments and its outputs."""

    build: Build
    call: Call
    outputs: list[mx.array]

    @property
    def name(self) -> str:
        """Name of the kernel function."""
        return kernel.kernel_of(self.build).function

    @property
    def operation(self) -> str:
        """Name of the operation that the kernel belongs to."""
        return kernel.kernel_of(self.build).operation

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Sorted names of the float types of the arrays, or of all types if no array is float."""
        dtypes = {array.dtype for array in self.call["inputs"]} | {*self.call["output_dtypes"]}
        floats = {dtype for dtype in dtypes if mx.issubdtype(dtype, mx.floating)} or dtypes
        return tuple(sorted(str(dtype).removeprefix("mlx.core.") for dtype in floats))

    @property
    def adds(self) -> bool:
        """Whether the kernel adds to outputs that are initialized to zero."""
        return "init_value" in self.call

    @property
    def work(self) -> Work:
        """Work of the launch: bytes, operations, and atomic additions."""
        outputs = zip(self.call["output_shapes"], self.call["output_dtypes"], strict=True)
        written = sum(prod(shape) * dtype.size for shape, dtype in outputs)
        inputs = dict(zip(kernel.kernel_of(self.build).inputs, self.call["inputs"], strict=True))
        read = sum(array.nbytes for array in inputs.values())
        adds = self.adds
        moved = Work(read + (1 + adds) * written, read + (1 + adds) * written)
        moved += Work(launches=1 + adds * len(self.call["output_shapes"]))
        if self.name == "draw_pixels":
            pixel = inputs["pixels"].nbytes // inputs["pixels"].shape[0]
            return moved + _rows(inputs["pixels"].nbytes, pixel, inputs["index"].shape[0])
        if self.operation == "networks":
            return moved + Work(operations=self._multiplications(inputs))
        if self.operation != "hash_encode" or "positions" not in inputs:
            return moved
        levels = self.call["grid"][1] if adds else inputs["grids"].shape[0]
        cells = inputs["positions"].shape[0] * levels
        features = dict(self.call["template"])["FEATURES"]
        moved += Work(operations=cells * (15 + CORNERS * (2 + 2 * features)))
        if adds:
            added = CORNERS * cells * features
            again = Work(uncached=2 * 4 * added - written)
            is_float = self.call["output_dtypes"][0] == mx.float32
            atomics = Work(float_atomics=added) if is_float else Work(integer_atomics=added)
            return moved + again + atomics
        table = inputs["table"]
        return moved + _rows(table.nbytes, table.nbytes // table.shape[0], CORNERS * cells)

    def _multiplications(self, inputs: dict[str, mx.array]) -> int:
        """Return the number of floating-point operations in the matrix products of the networks."""
        sizes = dict(self.call["template"])
        if "features" not in inputs:
            return 0
        layers = sizes["DENSITY_LAYERS"], sizes.get("COLOR_LAYERS", 1)
        shape = NetworksShape(sizes["IN"], sizes["WIDTH"], *layers)
        has_color = self.name != "networks_density"
        weights = shape.density.weights + has_color * shape.color.weights
        times = 6 if self.name == "networks_gradient" else 2
        return times * inputs["features"].shape[0] * weights


def _rows(whole: int, row: int, rows: int) -> Work:
    """Return a correction of the bytes for a kernel that reads `rows` rows of `row` bytes from a
    table of `whole` bytes. Without the correction, the whole table counts as read once."""
    return Work(min(rows * row, whole) - whole, rows * row - whole)


def launches(compute: Callable[[], Any], *, runs: bool = True) -> list[Launched]:
    """Record the kernel launches of a computation, in order. Its results may be unevaluated. Unless
    `runs` is true, for example for a device that this machine does not have, kernels do not run,
    and their outputs are zeros with the correct shapes."""
    recorded: list[Launched] = []

    def launch(build: Build, **call: Any) -> list[mx.array]:
        zeros = map(mx.zeros, call["output_shapes"], call["output_dtypes"])
        recorded.append(Launched(build, call, build(**call) if runs else list(zeros)))
        return recorded[-1].outputs

    with uncompiled(), kernel.launched_by(launch):
        compute()
    return recorded


NEVER_EVALUATED = ("hash_encode_position_gradient", "packing_samples_per_ray")
"""Names of kernels that are recorded in a training step but usually not evaluated, because their
results are not used or used only in reports."""


def recorded_launches(
    trainer: Trainer, state: TrainState, *, runs: bool = True
) -> list[list[Launched]]:
    """Record the kernel launches of each computation in `Trainer.trial`, as `launches` does.

    The computations are the occupancy update in each phase of the sampler, a training step, and the
    average of the parameters. The last phase of the sampler begins after the warm-up. If `runs` is
    true, the inputs and outputs of the launches are evaluated.
    """
    trial, count = trainer.trial(state), trainer.model.sampler.phases + 2
    recorded = [launches(partial(next, trial), runs=runs) for _ in range(count)]
    if runs:
        for launched in chain(*recorded):
            mx.eval(launched.call["inputs"], launched.outputs)
    return recorded


def repeat(recorded: list[Launched]) -> list[list[mx.array]]:
    """Launch kernels again with the same arguments, and return the unevaluated outputs."""
    return [launched.build(**launched.call) for launched in recorded]


def by_kernel(recorded: list[Launched]) -> dict[str, list[Launched]]:
    """Group launches by kernel name, in the order of first launch, without `NEVER_EVALUATED`."""
    kernels: dict[str, list[Launched]] = {}
    for launched in recorded:
        if launched.name not in NEVER_EVALUATED:
            kernels.setdefault(launched.name, []).append(launched)
    return kernels
