"""`CpuKernel`, the counterpart of `mx.fast.metal_kernel` for CPUs.

The kernel body is compiled as C++ inside a loop over the grid. The kernel runs on all cores as an
MLX operation (extension.cpp), so `mx.compile` and `mx.grad` support it like any other operation.
"""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import mlx.core as mx

from nerfmac.backend.build import BuildError, Library, shared_library, type_in_c
from nerfmac.backend.extension import load_extension

_TYPES = {mx.float32: "float", mx.int32: "int", mx.uint32: "unsigned", mx.uint8: "unsigned char"}

# The flag -ffast-math is not used, because it reorders all sums. Kernels allow reordering only
# where it is harmless. With -ffast-math, the compiler also assumes that there are no NaNs, so
# nerfmac could not detect that a run has diverged.
_FLAGS = (
    "-std=c++14",  # as in Metal; with later standards, headers take three times as long to compile
    *("-march=native", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast"),
)

# Names end in _ so that the names of kernel inputs cannot shadow them. With __restrict pointers as
# parameters and a signed loop counter, compilers can vectorize the loop over threads.
_WRAPPER = """
static inline void grid_(
    const uint3 begin_, const uint3 end_{parameters}) {{
{declarations}
  for (std::uint32_t z_ = begin_.z; z_ < end_.z; ++z_)
  for (std::uint32_t y_ = begin_.y; y_ < end_.y; ++y_)
  for (int x_ = int(begin_.x); x_ < int(end_.x); ++x_) {{
    const uint3 thread_position_in_grid{{uint(x_), y_, z_}};
    {source}
  }}
}}

extern "C" void run(
    void* const* arrays_, const int* const* shapes_, const std::uint32_t* begin_,
    const std::uint32_t* end_) {{
  grid_(
      uint3{{begin_[0], begin_[1], begin_[2]}}, uint3{{end_[0], end_[1], end_[2]}}{arguments});
}}
"""


@dataclass(frozen=True, eq=False)
class CpuKernel:
    """CPU kernel with the body `source`, compiled for the array types of each call.

    If `atomic_outputs` is True, each row of the grid (fixed y and z) runs in order on one thread.
    If the rows also write to different elements, results are bitwise reproducible.
    """

    name: str
    input_names: Sequence[str]
    output_names: Sequence[str]
    source: str
    header: str = ""
    atomic_outputs: bool = False

    def __call__(
        self,
        *,
        inputs: Sequence[mx.array],
        output_shapes: Sequence[Sequence[int]],
        output_dtypes: Sequence[mx.Dtype],
        grid: tuple[int, int, int],
        template: Sequence[tuple[str, int]] = (),
        init_value: float | None = None,
        **_unused: Any,
    ) -> list[mx.array]:
        """Launch the kernel. The arguments are as for `mx.fast.metal_kernel`, but `init_value` must
        be 0 or None. The axes of `grid` are numbers of iterations."""
        library = self.library(inputs=inputs, output_dtypes=output_dtypes, template=template)
        outputs: list[mx.array] = load_extension().launch(
            self.name,
            _function(library),
            list(inputs),
            [list(shape) for shape in output_shapes],
            list(output_dtypes),
            grid,
            self.atomic_outputs,
            init_value,
        )
        return outputs

    def library(
        self,
        *,
        inputs: Sequence[mx.array],
        output_dtypes: Sequence[mx.Dtype],
        template: Sequence[tuple[str, int]] = (),
        **_unused: Any,
    ) -> Library:
        """Return the library that runs the kernel for the given call arguments."""
        types = (*(array.dtype for array in inputs), *output_dtypes)
        names = (*self.input_names, *self.output_names)
        text = _program(names, types, len(inputs), tuple(template), self.source, self.header)
        return Library(self.name, ((f"{self.name}.cpp", text),), _FLAGS)


def _program(
    names: tuple[str, ...],
    types: tuple[mx.Dtype, ...],
    inputs: int,
    template: tuple[tuple[str, int], ...],
    source: str,
    header: str,
) -> str:
    lines = [f"  constexpr int {key} = {int(value)};" for key, value in template]
    parameters, arguments = "", ""
    for i, (name, dtype) in enumerate(zip(names, types, strict=True)):
        kind = ("const " if i < inputs else "") + type_in_c(name, dtype, _TYPES, "on a CPU")
        parameters += f", {kind}* __restrict {name}"
        arguments += f", static_cast<{kind}*>(arrays_[{i}])"
        if i < inputs and f"{name}_shape" in source:
            parameters += f", const int* __restrict {name}_shape"
            arguments += f", shapes_[{i}]"
    return header + _WRAPPER.format(
        parameters=parameters, arguments=arguments, declarations="\n".join(lines), source=source
    )


@cache
def _function(library: Library) -> int:
    """Compile and load a shared library, which is never unloaded, and return the address of its
    function."""
    path = shared_library(library)
    try:
        loaded = ctypes.CDLL(str(path))
    except OSError as error:
        raise BuildError(f"the compiled kernel {path} cannot be loaded: {error}") from error
    address = ctypes.cast(loaded.run, ctypes.c_void_p).value
    assert address is not None
    return address
