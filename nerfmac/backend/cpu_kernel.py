"""`cpu_kernel`: the CPU's counterpart of `mx.fast.metal_kernel`, with its calling convention.

The body is compiled as C++ inside a loop over the grid and runs as an MLX operation of our own
(extension.cpp), on all cores, inside `mx.compile` and `mx.grad` like any other.
"""

from __future__ import annotations

import ctypes
import importlib.util
import platform
import sys
import sysconfig
from collections.abc import Callable, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

import mlx.core as mx
import nanobind

from nerfmac.backend.build import BuildError, shared_library
from nerfmac.backend.device import processors
from nerfmac.checks import InputError

Template = Sequence[tuple[str, int | bool | mx.Dtype]]

_TYPES = {mx.float32: "float", mx.int32: "int", mx.uint32: "unsigned", mx.uint8: "unsigned char"}

# Sums may be reordered into vectors only where a kernel says so; the rest of -ffast-math would let
# the compiler assume there is no NaN, and a diverged run could no longer be noticed.
_FLAGS = ("-march=native", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast")

# Names end in _ so that no input of a kernel hides them. Pointers that are __restrict as parameters
# and a signed count of threads let the compiler turn threads into vectors.
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


@cache
def extension() -> ModuleType:
    """Our MLX operation, built on first use. Raises `BuildError`."""
    mlx_root = Path(mx.__file__).parent
    nanobind_root = Path(nanobind.__file__).parent
    library_folder = mlx_root / "lib"
    link = ["-undefined", "dynamic_lookup"] if platform.system() == "Darwin" else []
    flags = (
        "-O2",
        "-fvisibility=hidden",
        "-DNB_DOMAIN=mlx",
        "-DNERFMAC_EXTENSION=nerfmac_cpu_extension",
        f"-I{nanobind_root / 'include'}",
        f"-I{nanobind_root / 'src'}",
        f"-I{nanobind_root / 'ext' / 'robin_map' / 'include'}",
        f"-I{mlx_root / 'include'}",
        f"-I{sysconfig.get_path('include')}",
        f"-L{library_folder}",
        "-lmlx",
        f"-Wl,-rpath,{library_folder}",
        "-pthread",
        *link,
    )
    sources = {
        "extension.cpp": Path(__file__).with_name("extension.cpp").read_text(),
        "nanobind.cpp": (nanobind_root / "src" / "nb_combined.cpp").read_text(),
        # Not compiled into anything; they make the library's name depend on the versions.
        "versions.cpp": f"// mlx {version('mlx')}, nanobind {version('nanobind')}\n",
    }
    path = shared_library("nerfmac_cpu_extension", sources, flags)
    spec = importlib.util.spec_from_file_location("nerfmac_cpu_extension", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        module.length(mx.zeros(3))
    except (ImportError, TypeError) as error:
        reason = str(error).splitlines()[0]
        versions = f"mlx {version('mlx')} and nanobind {version('nanobind')}"
        raise BuildError(f"the extension built with {versions} does not load: {reason}") from error
    sys.modules[spec.name] = module
    module.start_workers(processors())
    return module


def cpu_kernel(
    name: str,
    input_names: Sequence[str],
    output_names: Sequence[str],
    source: str,
    header: str = "",
    atomic_outputs: bool = False,
) -> Callable[..., list[mx.array]]:
    """A kernel compiled for the CPU from the body `source`; see `mx.fast.metal_kernel`.

    With `atomic_outputs`, each row of the grid (fixed y and z) runs on one thread, in order; the
    kernel must give rows disjoint outputs. Its results then repeat bit for bit.

    The returned function takes `inputs`, `output_shapes`, `output_dtypes`, `grid`, `template` and
    `init_value` (None or 0) by keyword and raises `BuildError`.
    """

    def call(
        *,
        inputs: Sequence[mx.array],
        output_shapes: Sequence[Sequence[int]],
        output_dtypes: Sequence[mx.Dtype],
        grid: tuple[int, int, int],
        template: Template = (),
        init_value: float | None = None,
        **_unused: Any,
    ) -> list[mx.array]:
        types = (*(array.dtype for array in inputs), *output_dtypes)
        names = (*input_names, *output_names)
        text = _program(names, types, len(inputs), tuple(template), source, header)
        launched: list[mx.array] = extension().launch(
            name,
            _function(name, text),
            list(inputs),
            [list(shape) for shape in output_shapes],
            list(output_dtypes),
            grid,
            atomic_outputs,
            init_value,
        )
        return launched

    return call


def _program(
    names: tuple[str, ...],
    types: tuple[mx.Dtype, ...],
    inputs: int,
    template: tuple[tuple[str, int | bool | mx.Dtype], ...],
    source: str,
    header: str,
) -> str:
    lines = []
    for key, value in template:
        if isinstance(value, mx.Dtype):
            lines.append(f"  using {key} = {_TYPES[value]};")
        else:
            lines.append(f"  constexpr int {key} = {int(value)};")
    parameters, arguments = "", ""
    for i, (name, dtype) in enumerate(zip(names, types, strict=True)):
        if dtype not in _TYPES:
            known = ", ".join(str(each).removeprefix("mlx.core.") for each in _TYPES)
            got = str(dtype).removeprefix("mlx.core.")
            raise InputError(f"{name} is {got}; on a CPU kernels take and give {known}")
        kind = ("const " if i < inputs else "") + _TYPES[dtype]
        parameters += f", {kind}* __restrict {name}"
        arguments += f", static_cast<{kind}*>(arrays_[{i}])"
        if i < inputs and f"{name}_shape" in source:
            parameters += f", const int* __restrict {name}_shape"
            arguments += f", shapes_[{i}]"
    return header + _WRAPPER.format(
        parameters=parameters, arguments=arguments, declarations="\n".join(lines), source=source
    )


@cache
def _function(name: str, text: str) -> int:
    """Address of the compiled program `text`; libraries stay loaded for the process' life.

    Raises `BuildError`.
    """
    path = shared_library(name, {f"{name}.cpp": text}, _FLAGS)
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise BuildError(f"{path} does not load: {error}") from error
    address = ctypes.cast(library.run, ctypes.c_void_p).value
    assert address is not None
    return address
