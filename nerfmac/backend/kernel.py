"""`Kernel`, a function written in Metal that can be launched on several back ends, and `Signature`,
the names, dtypes, and shapes of its arrays.

The kernel body that MLX compiles is a single call of the user's function:

    function<TEMPLATE...>(thread_position_in_grid, rows, inputs..., outputs..., space)
"""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import mlx.core as mx

from nerfmac.backend.build import BuildError, Cached, announce_metal, compile_together
from nerfmac.backend.compiling import uncompiled
from nerfmac.backend.cpu_kernel import CpuKernel
from nerfmac.backend.cuda_kernel import CudaKernel
from nerfmac.backend.device import current_device
from nerfmac.backend.fallback import backend, users_operations, why_no_extension
from nerfmac.backend.sources import kernel_source, read_ascii, user_source
from nerfmac.common import OF_DEVICES, InputError, checks

Dtype = mx.Dtype | Callable[[], mx.Dtype]
"""A dtype, or a function that returns a dtype, such as `nerfmac.backend.working_dtype`."""


class Signature(dict[str, tuple[Any, ...]]):
    """Dictionary from the name of each array to its dtype (or a tuple of allowed dtypes) and the
    lengths of its axes.

        _TAKES = Signature(color=(mx.float32, "slots", 3), ray_start=(mx.int32, "rays + 1"))
        rays = _TAKES.check(color, ray_start)["rays"]

    A length is a number, a name, or a name plus a number. All axes with the same name must have the
    same length.
    """

    def check(self, *arrays: mx.array, **lengths: int) -> dict[str, int]:
        """Check the shapes and types of arrays.

        Args:
            arrays: Arrays in the order of the signature.
            lengths: Lengths of named axes that the caller already knows.

        Returns:
            Length of each named axis.

        Raises:
            InputError: If an array has a wrong shape or type. If the lengths of a named axis differ
                between two arrays, the message contains both lengths.
        """
        said_by: dict[str, str] = {}
        for (name, (allowed, *axes)), array in zip(self.items(), arrays, strict=True):
            try:
                checks.shape(name, array, [_length(axis, lengths) for axis in axes])
            except checks.InputError as error:
                others = [
                    f"{said_by[a]} has {lengths[a]} {a}"
                    for a, _ in map(_split, axes)
                    if a in said_by
                ]
                raise checks.InputError("; ".join([str(error), *others])) from None
            kinds = allowed if isinstance(allowed, tuple) else (allowed,)
            checks.dtype(name, array, *map(_resolved, kinds))
            for (axis, more), length in zip(map(_split, axes), array.shape, strict=True):
                if axis and axis not in lengths:
                    lengths[axis], said_by[axis] = length - more, name
        return lengths

    def outputs(self, **lengths: int) -> dict[str, Any]:
        """Return the keyword arguments `output_shapes` and `output_dtypes` of a kernel launch.

        The outputs are the arrays in this signature. Each array must have a single dtype. `lengths`
        contains the lengths of the named axes.

        Raises:
            InputError: If `lengths` lacks a named axis.
        """
        shapes = [tuple(_length(axis, lengths) for axis in axes) for _, *axes in self.values()]
        for (name, (_, *axes)), shape in zip(self.items(), shapes, strict=True):
            if None in shape:
                axis, _ = _split(axes[shape.index(None)])
                raise checks.InputError(f"the axis {axis!r} of the output {name} has no length")
        dtypes = [_resolved(kind) for kind, *_ in self.values()]
        return {"output_shapes": shapes, "output_dtypes": dtypes}


def _split(axis: int | str) -> tuple[str, int]:
    """Return the name of an axis, or "" for a number, and the number that is added to the name."""
    if isinstance(axis, int):
        return "", axis
    name, _, more = axis.partition(" + ")
    return name, int(more or 0)


def _length(axis: int | str, lengths: dict[str, int]) -> int | None:
    """Return the length of an axis, or None if the length of its name is unknown."""
    name, more = _split(axis)
    if not name:
        return more
    return lengths[name] + more if name in lengths else None


def _resolved(kind: Dtype) -> mx.Dtype:
    return kind if isinstance(kind, mx.Dtype) else kind()


_GROUP = 256  # number of threads in a threadgroup; some Apple GPUs do not support more

_MAKERS: dict[str, Callable[..., Any]] = {
    "metal": mx.fast.metal_kernel,
    "cuda": CudaKernel,
    "cpu": CpuKernel,
}


@dataclass(frozen=True, eq=False)
class Kernel:
    """Function written in Metal, launched over a grid of threads as an MLX operation.

    The function runs as Metal on an Apple GPU, as CUDA on an NVIDIA GPU, and as C++ on a CPU. Each
    kernel also requires a reference implementation in plain MLX. If the machine cannot run kernels,
    the reference runs instead, as the fourth back end `reference`. Tests compare the kernel with
    the reference. Call a kernel only if `nerfmac.backend.runs_kernel(operation)` is True.

    The function's arguments are the thread index in the grid, the number `rows`, the inputs, the
    outputs, and, if set, the `space`. Arrays are pointers to elements in row-major order. The
    pointer types are template parameters, because MLX chooses the address space: `constant` for
    inputs with fewer than eight elements, and `device` for larger inputs. CUDA rounds the grid up
    to whole threadgroups, so the function must return immediately if the thread index is not less
    than `rows`. The function must write every output element.

    The source code is Metal, restricted to the subset that the files in `kernels/` use. A simdgroup
    has `SIMD_WIDTH` threads: 32 on a GPU, and one on a CPU. In Python, `SIMD_WIDTH` is
    `nerfmac.backend.simd_width()`. A kernel with one simdgroup per row is launched over
    rows * simd_width() threads. On a CPU, arrays are float32, int32, uint32, or uint8. CUDA also
    supports float16.

    A gradient is a separate kernel. Connect it to the forward kernel with `mx.custom_function`. If
    several threads add to one element, the kernel must use `atomic_add_row` and set `accumulates`.

    Raises:
        InputError: If the file is missing or the source code is not ASCII.

    Examples:
        >>> source = '''
        ... template <int POWER, typename In, typename Out>
        ... METAL_FUNC void power(uint3 thread_index, int count, In x, Out y) {
        ...   const uint i = thread_index.x;
        ...   if (i >= uint(count)) return;
        ...   float value = 1.0f;
        ...   for (int n = 0; n < POWER; ++n) value *= x[i];
        ...   y[i] = value;
        ... }
        ... '''
        >>> one_axis = (mx.float32, "count")
        >>> kernel = nerfmac.Kernel(
        ...     "power", "power", inputs={"x": one_axis}, outputs={"y": one_axis}, source=source
        ... )
        >>> (cubes,) = kernel(
        ...     mx.array([0.0, 1.0, 2.0, 3.0]), grid=(4, 1, 1), template=[("POWER", 3)]
        ... )
        >>> cubes
        array([0, 1, 8, 27], dtype=float32)
    """

    operation: str
    """Name of the operation, for `runs_kernel` and the variable `NERFMAC_DISABLE_KERNELS`. Without
    a `source`, the function is in nerfmac's `kernels/<operation>.metal`."""
    function: str
    """Name of the function. The launch argument `template` sets the first template parameters of
    the function."""
    inputs: Mapping[str, tuple[Any, ...]]
    """Arrays that the function reads: for each name, the dtype (or a tuple of allowed dtypes),
    followed by the lengths of the axes. A length is a number, a name, or a name plus a number, such
    as "rays + 1". All axes with the same name must have the same length."""
    outputs: Mapping[str, tuple[Any, ...]]
    """Arrays that the function writes, declared like `inputs` but with a single dtype each. The
    lengths of named axes come from the inputs of a launch or, for other names, from its keyword
    arguments."""
    rows: str | None = None
    """C++ expression for the number of rows, such as "x_shape[0]", where NAME_shape is the shape of
    the input NAME. The default is the length of the first input's first axis. The first axis of the
    grid has one thread or one simdgroup for each row."""
    space: str | None = None
    """Declaration of a threadgroup array named `space`, such as "float space[64]", or None. Metal
    allows this declaration only in a kernel body."""
    accumulates: bool = False
    """Whether the function adds to its outputs. If True, outputs are initialized to zero and, on
    Metal, have atomic elements. On a CPU, each row of the grid (fixed y and z) runs on one thread,
    so different rows must add to different elements."""
    source: Path | str | None = None
    """Path of a .metal file, or Metal source code. `#include "NAME"` searches for headers in the
    folder of the file, then in the kernels folder of nerfmac. The file is read at the first launch.
    If you change the file, create the `Kernel` again."""

    def __post_init__(self) -> None:
        if self.source is not None:
            users_operations.add(self.operation)
        if isinstance(self.source, Path):
            read_ascii(self.source)
        elif self.source is not None and not self.source.isascii():
            raise InputError(
                f"the source code of {self.function} has characters that are not ASCII"
            )

    def __call__(
        self,
        *inputs: mx.array,
        grid: tuple[int, int, int],
        group: int | None = None,
        template: Sequence[tuple[str, int]] = (),
        zeroed: bool = False,
        **lengths: int,
    ) -> list[mx.array]:
        """Launch the kernel.

        Args:
            inputs: Input arrays, in the order of the kernel's `inputs`.
            grid: Number of threads in x, y, and z. An empty grid launches nothing and returns
                zeros.
            group: Number of threads per threadgroup, along x. By default, at most 256.
            template: Names and values of the first template parameters, in order.
            zeroed: Whether outputs are initialized to zero. If the kernel has `accumulates`,
                outputs are always initialized to zero.
            lengths: Lengths of the named axes that no input has.

        Returns:
            Output arrays, in the order of `outputs`. The arrays are lazy: MLX evaluates them when
            they are needed.

        Raises:
            InputError: If the number, the shape, or the type of an input is wrong, or if the length
                of an axis is missing. The first launch on a device also raises it if the function
                or a header is missing, or if `source` does not compile.
            RuntimeError: If a Metal kernel does not compile. MLX compiles the kernel when its
                outputs are evaluated, and the error contains the compiler's messages.
            BuildError: If a built-in kernel cannot be built, or if no kernel can be built on this
                machine.
        """
        if len(inputs) != len(self.inputs):
            names = ", ".join(self.inputs)
            raise InputError(f"{self.function} got {len(inputs)} arrays; expected {names}")
        lengths = Signature(self.inputs).check(*inputs, **lengths)
        outputs = Signature(self.outputs).outputs(**lengths)
        if prod(grid) == 0:
            return list(map(mx.zeros, *outputs.values()))
        build = _build(self, current_device(), tuple(name for name, _ in template))
        extra: dict[str, Any] = {"init_value": 0} if zeroed or self.accumulates else {}
        try:
            return _launch.get()(
                build,
                inputs=list(inputs),
                template=list(template),
                grid=grid,
                threadgroup=(group or min(_GROUP, grid[0]), 1, 1),
                **outputs,
                **extra,
            )
        except BuildError as error:
            if self.source is None or (current_device() == "cpu" and why_no_extension()):
                raise
            raise InputError(f"{self.source_name} does not compile: {error}") from error

    @property
    def source_name(self) -> str:
        """File name or, for source code passed as a string, a name for use in messages."""
        if self.source is None:
            return f"{self.operation}.metal"
        return self.source.name if isinstance(self.source, Path) else f"source of {self.operation}"

    def text(self, device: str) -> str:
        """Return the source code for a device, without the kernel body.

        Args:
            device: "metal", "cuda", or "cpu".

        Returns:
            Source code that precedes the kernel body.

        Raises:
            InputError: If the source file cannot be read or does not contain the function.
        """
        if self.source is None:
            return kernel_source(self.operation, device)
        text = user_source(self.source, self.source_name, device)
        if not re.search(rf"\b{self.function}\s*\(", text):
            raise InputError(f"{self.source_name} has no function {self.function}")
        return text

    def body(self, template: tuple[str, ...]) -> str:
        """Return the kernel body: a call to the kernel's function with all arguments.

        Args:
            template: Template arguments for the function, or an empty tuple if it is not a
                template.

        Returns:
            Source code.
        """
        rows = self.rows or f"{next(iter(self.inputs))}_shape[0]"
        arguments = ("thread_position_in_grid", rows, *self.inputs, *self.outputs)
        declaration = ""
        if self.space is not None:
            declaration = f"threadgroup {self.space}; "
            arguments += ("space",)
        parameters = f"<{', '.join(template)}>" if template else ""
        return f"{declaration}{self.function}{parameters}({', '.join(arguments)});"


def _launch_here(build: Callable[..., list[mx.array]], **call: Any) -> list[mx.array]:
    return build(**call)


# This is a context variable, because one thread may compile with dummy launches while another
# thread renders.
_launch: ContextVar[Callable[..., list[mx.array]]] = ContextVar("launch", default=_launch_here)


@contextmanager
def launched_by(launch: Callable[..., list[mx.array]]) -> Iterator[None]:
    """Return a context manager that calls `launch` instead of launching this thread's kernels.

    `launch` receives the compiled kernel and the keyword arguments of the launch, and returns the
    list of outputs.
    """
    before = _launch.set(launch)
    try:
        yield
    finally:
        _launch.reset(before)


@cache
def _build(kernel: Kernel, device: str, template: tuple[str, ...]) -> Any:
    options: dict[str, Any] = {}
    if device != "cuda":  # on CUDA, atomic functions accept plain pointers
        options["atomic_outputs"] = kernel.accumulates
    text, body = kernel.text(device), kernel.body(template)
    name = f"nerfmac_{kernel.function}"
    if kernel.source is not None:
        # MLX caches kernels by name, but several source files may use the same function name.
        everything = repr((text, body, [*kernel.inputs], [*kernel.outputs], kernel.accumulates))
        name += f"_{hashlib.sha256(everything.encode()).hexdigest()[:12]}"
    built = _MAKERS[device](
        name=name,
        input_names=list(kernel.inputs),
        output_names=list(kernel.outputs),
        source=body,
        header=text,
        **options,
    )
    _kernels[id(built)] = kernel
    return built


_kernels: dict[int, Kernel] = {}  # keyed by the id of the built kernel, which `_build` caches


def kernel_of(built: Callable[..., list[mx.array]]) -> Kernel:
    """Return the `Kernel` that a compiled kernel, as passed to `launch` in `launched_by`, belongs
    to."""
    return _kernels[id(built)]


@contextmanager
def compiled_ahead() -> Iterator[None]:
    """Return a context manager that compiles all kernels that are launched in its context, in
    parallel on all processors, at its end.

    Without this function, each kernel is compiled at its first launch, one kernel at a time. In the
    context, launches return zeros, so the graph must not depend on array values. On an Apple GPU,
    the system compiles kernels at their first launch, so this function only logs a message.
    """
    if backend() == "metal":
        announce_metal()
    if backend() not in ("cpu", "cuda"):
        yield
        return
    libraries: list[Cached] = []

    def note(built: CpuKernel | CudaKernel, **call: Any) -> list[mx.array]:
        libraries.append(built.library(**call))
        return list(map(mx.zeros, call["output_shapes"], call["output_dtypes"]))

    with uncompiled(), launched_by(note):  # a compiled function would record the dummy launches
        yield
    compile_together(libraries)


def simd_width() -> int:
    """Return the number of threads in a simdgroup: 32 on a GPU and 1 on a CPU."""
    return OF_DEVICES["SIMD_WIDTH"][current_device()]


def group_threads() -> int:
    """Return the number of threads in a threadgroup that sums over all rays: GROUP_SIMDGROUPS
    simdgroups."""
    return simd_width() * OF_DEVICES["GROUP_SIMDGROUPS"][current_device()]
