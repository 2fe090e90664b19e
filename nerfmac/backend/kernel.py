"""One kernel, four back ends: `Kernel` names a function of `kernels/*.metal` and launches it.

The body handed to MLX only forwards to that function:

    function<TEMPLATE...>(thread_position_in_grid, rows, inputs..., outputs..., space)

`rows` is how many rows the grid's first axis covers. Kernels compare against it, since Metal
launches exactly the grid asked for while CUDA rounds it up to whole blocks.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any

import mlx.core as mx

from nerfmac.backend.build import BuildError
from nerfmac.backend.cpu_kernel import cpu_kernel
from nerfmac.backend.device import compute_capability, current_device, device_name
from nerfmac.backend.extension import extension
from nerfmac.backend.sources import dialect_source, kernel_source, operations
from nerfmac.checks import InputError

log = logging.getLogger("nerfmac")

_DISABLE = "NERFMAC_DISABLE_KERNELS"  # 1, or operations with commas between them

_GROUP = 256  # threads a group; larger ones exceed what some Apple GPUs allow a kernel

# Compute capability: kernels/dialects/cuda multiplies matrices and adds up integers by instructions
# that older GPUs have not.
_OLDEST_GPU = (8, 0)

_MAKERS: dict[str, Callable[..., Any]] = {
    "metal": mx.fast.metal_kernel,
    "cuda": mx.fast.cuda_kernel,
    "cpu": cpu_kernel,
}


@dataclass(frozen=True)
class Kernel:
    """A function of `kernels/<operation>.metal`.

    `rows` is the C++ expression, over the inputs' `_shape`s, for the length of the grid's first
    axis. `space` declares an array in the threadgroup's memory, if the function wants one: Metal
    allows that in a kernel's own body only. An `accumulates` kernel adds into its outputs, which
    start from zero; on the CPU each row of its grid (fixed y and z) must own disjoint outputs.
    """

    operation: str
    function: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    rows: str
    space: str = ""
    accumulates: bool = False

    def __call__(
        self,
        *inputs: mx.array,
        grid: tuple[int, int, int],
        group: int | None = None,
        output_shapes: Sequence[Sequence[int]],
        output_dtypes: Sequence[mx.Dtype],
        template: Sequence[tuple[str, int]] = (),
        zeroed: bool = False,
    ) -> list[mx.array]:
        """Launch over `grid` threads, `group` of them to a threadgroup.

        Outputs start from zero if `zeroed` or if the kernel accumulates.
        """
        if prod(grid) == 0:
            return [
                mx.zeros(shape, dtype)
                for shape, dtype in zip(output_shapes, output_dtypes, strict=True)
            ]
        build = _build(self, current_device(), tuple(name for name, _ in template))
        extra: dict[str, Any] = {"init_value": 0} if zeroed or self.accumulates else {}
        return _launch(
            build,
            inputs=list(inputs),
            template=list(template),
            grid=grid,
            threadgroup=(group or min(_GROUP, grid[0]), 1, 1),
            output_shapes=[tuple(shape) for shape in output_shapes],
            output_dtypes=list(output_dtypes),
            **extra,
        )

    def body(self, template: tuple[str, ...]) -> str:
        """The body: a call of the function with everything it takes."""
        arguments = ("thread_position_in_grid", self.rows, *self.inputs, *self.outputs)
        declaration = f"threadgroup {self.space}; " if self.space else ""
        if self.space:
            arguments += ("space",)
        parameters = f"<{', '.join(template)}>" if template else ""
        return f"{declaration}{self.function}{parameters}({', '.join(arguments)});"


def _launch_here(build: Callable[..., list[mx.array]], **call: Any) -> list[mx.array]:
    return build(**call)


_launch = _launch_here


@contextmanager
def launched_by(launch: Callable[..., list[mx.array]]) -> Iterator[None]:
    """Within it `launch` is called with a built kernel and the arguments of its launch."""
    global _launch
    before, _launch = _launch, launch
    try:
        yield
    finally:
        _launch = before


@cache
def _build(kernel: Kernel, device: str, template: tuple[str, ...]) -> Any:
    options: dict[str, Any] = {}
    if device != "cuda":  # CUDA's plain pointers take atomic functions as they are
        options["atomic_outputs"] = kernel.accumulates
    return _MAKERS[device](
        name=f"nerfmac_{kernel.function}",
        input_names=list(kernel.inputs),
        output_names=list(kernel.outputs),
        source=kernel.body(template),
        header=kernel_source(kernel.operation, device),
        **options,
    )


def simd_width() -> int:
    """Threads that run in step and share values: a simdgroup's on a GPU, one on a CPU."""
    return 1 if current_device() == "cpu" else 32


def working_dtype() -> mx.Dtype:
    """What features and activations are computed in: half precision where kernels run on a GPU."""
    return mx.float32 if backend() in ("cpu", "reference") else mx.float16


def backend(operation: str | None = None) -> str:
    """What runs `operation` (or kernels in general) now: metal, cuda, cpu or reference."""
    return "reference" if why_reference(operation) else current_device()


def runs_kernel(operation: str) -> bool:
    """Whether `operation` runs as a kernel; if not, its plain MLX reference does."""
    return why_reference(operation) is None


@contextmanager
def kernels_disabled() -> Iterator[None]:
    """Within it, every operation runs its reference."""
    before = os.environ.get(_DISABLE)
    os.environ[_DISABLE] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_DISABLE]
        else:
            os.environ[_DISABLE] = before


def why_reference(operation: str | None = None) -> str | None:
    """Why the reference replaces the kernel of `operation`, in words; None if it does not.

    Raises `InputError` where NERFMAC_DISABLE_KERNELS names what is no operation.
    """
    value = os.environ.get(_DISABLE, "")
    if {"1", operation} & _disabled(value):
        return f"{_DISABLE}={value}"
    if current_device() == "cpu":
        return _why_no_extension()
    return _why_not_this_gpu() if current_device() == "cuda" else None


@cache
def _disabled(value: str) -> frozenset[str]:
    names = frozenset(name for part in value.split(",") if (name := part.strip()))
    if unknown := sorted(names - {"1", *operations()}):
        raise InputError(
            f"{_DISABLE} names {', '.join(unknown)}; expected 1, for all kernels, or names of "
            f"operations with commas between them: {', '.join(operations())}"
        )
    return names


@cache
def _why_no_extension() -> str | None:
    try:
        extension()
        # Kernels are compiled with other flags than the extension, which a compiler may refuse.
        probe = cpu_kernel("nerfmac_probe", [], ["one"], "one[0] = 1;", dialect_source("cpu"))
        probe(inputs=[], output_shapes=[(1,)], output_dtypes=[mx.int32], grid=(1, 1, 1))
    except BuildError as error:
        log.warning(
            "CPU kernels are off, plain MLX operations, about 60 times slower, replace them: %s",
            error,
        )
        return str(error)
    return None


@cache
def _why_not_this_gpu() -> str | None:
    capability = compute_capability()
    if capability is None or capability >= _OLDEST_GPU:
        return None
    found, needed = (".".join(map(str, each)) for each in (capability, _OLDEST_GPU))
    reason = f"{device_name()} has compute capability {found}; the kernels need {needed}"
    log.warning("CUDA kernels are off, plain MLX operations replace them: %s", reason)
    return reason
