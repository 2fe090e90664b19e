"""`CudaKernel`, the CUDA counterpart of `CpuKernel`, with the same calling convention.

`mx.fast.cuda_kernel` compiles a kernel when its result is evaluated. It compiles one kernel at a
time, and every process compiles all kernels again. Most of the compile time is spent on MLX's
headers. `CudaKernel` compiles kernels without these headers, in parallel on all processors, and
caches the binaries on disk. `mx.fast.precompiled_cuda_kernel` launches the compiled kernels.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import mlx.core as mx

from nerfmac.backend import nvrtc
from nerfmac.backend.build import BuildError, compile_together, type_in_c
from nerfmac.backend.device import compute_capability
from nerfmac.backend.host import CACHE_ADVICE, cache_folder
from nerfmac.common.checks import InputError
from nerfmac.common.files import appearing, make_folder

_TYPES = {
    mx.float32: "float",
    mx.float16: "half",
    mx.int32: "int",
    mx.uint32: "unsigned",
    mx.uint8: "unsigned char",
}

_PROGRAM = """\
#include <cuda_fp16.h>
{header}
extern "C" __global__ void {name}({parameters}) {{
{declarations}
  {source}
}}
"""


class Cubin(NamedTuple):
    """CUDA program of a kernel. The cache stores its binary for this machine's GPU."""

    name: str  # unique for each source code, because MLX caches loaded kernels by name
    text: str  # contains {name} instead of the kernel name

    @property
    def stem(self) -> str:
        """Name without the digest. The file name in the cache begins with it."""
        return self.name.rpartition("_")[0]

    def path(self) -> Path:
        """Return the path of the binary in the cache.

        Raises `BuildError` if no compiler or no NVIDIA GPU is found.
        """
        major, minor = _capability()
        return cache_folder() / f"{self.name}-sm{major}{minor}-{nvrtc.version()}.cubin"

    def compile(self, path: Path) -> None:
        """Compile the binary and write it to `path`.

        Raises `BuildError` if compilation fails or the file cannot be written.
        """
        text = self.text.replace("{name}", self.name)
        binary = nvrtc.compile_cubin(self.name, text, _capability())
        try:
            make_folder(path.parent)
            with appearing(path) as partial:
                partial.write_bytes(binary)
        except InputError as error:
            raise BuildError(f"{error}; {CACHE_ADVICE}") from error


@dataclass(frozen=True, eq=False)
class CudaKernel:
    """CUDA kernel with the body `source`, compiled for the array types of each call."""

    name: str
    input_names: Sequence[str]
    output_names: Sequence[str]
    source: str
    header: str = ""

    def __call__(
        self,
        *,
        inputs: Sequence[mx.array],
        output_shapes: Sequence[Sequence[int]],
        output_dtypes: Sequence[mx.Dtype],
        grid: tuple[int, int, int],
        threadgroup: tuple[int, int, int],
        template: Sequence[tuple[str, int]] = (),
        init_value: float | None = None,
    ) -> list[mx.array]:
        """Launch the kernel.

        Args:
            inputs: Input arrays, in the order of `input_names`.
            output_shapes: Shapes of the outputs, in the order of `output_names`.
            output_dtypes: Dtypes of the outputs.
            grid: Number of threads along each axis.
            threadgroup: Number of threads per thread block along each axis.
            template: Names and values of the integer constants in the source code.
            init_value: Initial value of all outputs, or None for uninitialized outputs.

        Returns:
            Output arrays.

        Raises:
            BuildError: If no compiler or no NVIDIA GPU is found, or if compilation fails.
            InputError: If the dtype of an array is not supported.
        """
        cubin = self.library(inputs=inputs, output_dtypes=output_dtypes, template=template)
        lengths = [length for i in self._shaped() for length in inputs[i].shape]
        return mx.fast.precompiled_cuda_kernel(
            name=cubin.name,
            compiled_source=_binary(cubin),
            inputs=list(inputs),
            output_shapes=[tuple(shape) for shape in output_shapes],
            output_dtypes=list(output_dtypes),
            scalars=lengths,
            grid=grid,
            threadgroup=threadgroup,
            init_value=init_value,
            ensure_row_contiguous=True,
        )

    def library(
        self,
        *,
        inputs: Sequence[mx.array],
        output_dtypes: Sequence[mx.Dtype],
        template: Sequence[tuple[str, int]] = (),
        **_unused: Any,
    ) -> Cubin:
        """Return the program that runs the kernel for the given call arguments.

        Raises `InputError` if the dtype of an array is not supported.
        """
        types = (*(array.dtype for array in inputs), *output_dtypes)
        ranks = tuple(inputs[i].ndim for i in self._shaped())
        return _cubin(self, types, ranks, tuple(template))

    def _shaped(self) -> list[int]:
        """Return the indices of the inputs whose shapes the kernel body uses."""
        return [i for i, name in enumerate(self.input_names) if f"{name}_shape" in self.source]


@cache
def _cubin(
    kernel: CudaKernel,
    types: tuple[mx.Dtype, ...],
    ranks: tuple[int, ...],
    template: tuple[tuple[str, int], ...],
) -> Cubin:
    """Return the program for arrays of the given types. `ranks` contains the number of axes of each
    input listed by `_shaped`."""
    names, inputs = (*kernel.input_names, *kernel.output_names), len(kernel.input_names)
    parameters = [
        f"{'const ' if i < inputs else ''}{type_in_c(name, dtype, _TYPES, 'as CUDA')}* {name}"
        for i, (name, dtype) in enumerate(zip(names, types, strict=True))
    ]
    declarations = [f"  constexpr int {key} = {int(value)};" for key, value in template]
    for i, count in zip(kernel._shaped(), ranks, strict=True):
        name = f"{names[i]}_shape"
        lengths = [f"{name}_{axis}" for axis in range(count)]
        parameters += [f"int {length}" for length in lengths]
        declarations.append(f"  const int {name}[] = {{{', '.join(lengths)}}};")
    text = _PROGRAM.format(
        name="{name}",
        header=kernel.header,
        parameters=", ".join(parameters),
        declarations="\n".join(declarations),
        source=kernel.source,
    )
    return Cubin(f"{kernel.name}_{hashlib.sha256(text.encode()).hexdigest()[:20]}", text)


def _capability() -> tuple[int, int]:
    capability = compute_capability()
    if capability is None:
        raise BuildError("MLX does not find an NVIDIA GPU")
    return capability


@cache
def _binary(cubin: Cubin) -> bytes:
    """Return the binary of a program. If the binary is not in the cache, it is compiled first.

    Raises `BuildError` if compilation fails.
    """
    compile_together([cubin])
    return cubin.path().read_bytes()
