"""`CudaKernel`, the CUDA counterpart of `CpuKernel`, with the same calling convention.

`mx.fast.cuda_kernel` compiles a kernel when its result is evaluated. MLX compiles one kernel at a
time, and every process compiles all kernels again. Most of the compile time is spent on MLX's
headers. `CudaKernel` compiles kernels without these headers, in parallel on all processors, and
caches the binaries on disk. `mx.fast.precompiled_cuda_kernel` launches the compiled kernels.
"""

import ctypes
import hashlib
import os
import site
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import mlx.core as mx

from nerfmac.backend.build import BuildError, compile_together, type_in_c
from nerfmac.backend.device import compute_capability
from nerfmac.backend.host import CACHE_ADVICE, cache_folder
from nerfmac.common import InputError, appearing, make_folder

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


_LIBRARIES = ("libnvrtc.so.13", "libnvrtc.so.12")
_HEADER = "cuda_fp16.h"  # the only header of the CUDA toolkit that the kernels include


class Cubin(NamedTuple):
    """CUDA program of a kernel. The cache stores its binary for this machine's GPU."""

    name: str  # unique for each source code, because MLX caches loaded kernels by name
    text: str  # contains {name} instead of the kernel name

    @property
    def stem(self) -> str:
        """Name of the program without the digest: the beginning of its file name in the cache."""
        return self.name.rpartition("_")[0]

    def path(self) -> Path:
        """Return the path of the binary in the cache."""
        major, minor = _capability()
        return cache_folder() / f"{self.name}-sm{major}{minor}-{compiler_version()}.cubin"

    def compile(self, path: Path) -> None:
        """Compile the binary and write it to `path`."""
        text = self.text.replace("{name}", self.name)
        binary = compile_cubin(self.name, text, _capability())
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
        """Launch the kernel. The arguments are as for `mx.fast.cuda_kernel`."""
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
        """Return the program that runs the kernel for the given call arguments."""
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
    """Return the program for arrays of the given types.

    `ranks` contains the number of axes of each input in `_shaped`.
    """
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
    """Return the binary of a program, and compile it if it is not in the cache."""
    compile_together([cubin])
    return cubin.path().read_bytes()


@cache
def compiler_version() -> str:
    """Return the version of NVRTC."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    _check(_library().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
    return f"{major.value}.{minor.value}"


def compile_cubin(name: str, text: str, capability: tuple[int, int]) -> bytes:
    """Compile the program `text` for GPUs with a compute `capability`, such as (9, 0)."""
    library, program = _library(), ctypes.c_void_p()
    # The CUDA dialect defines Metal's keyword `device` as an empty macro, so macros of the CUDA
    # toolkit that expand to this word have no effect. Therefore, compile all functions for the GPU.
    everything_on_the_gpu = "--device-as-default-execution-space"
    architecture = f"--gpu-architecture=sm_{capability[0]}{capability[1]}"
    options = (architecture, everything_on_the_gpu, *_include())
    encoded = (ctypes.c_char_p * len(options))(*map(str.encode, options))
    names = text.encode(), f"{name}.cu".encode()
    _check(library.nvrtcCreateProgram(ctypes.byref(program), *names, 0, None, None))
    try:
        if library.nvrtcCompileProgram(program, len(options), encoded) != 0:
            messages = _read(program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
            raise BuildError(f"nvrtc failed on {name}:\n" + "\n".join(messages.splitlines()[:12]))
        return _read(program, "CUBIN")
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _read(program: ctypes.c_void_p, item: str) -> bytes:
    size = ctypes.c_size_t()
    _check(getattr(_library(), f"nvrtcGet{item}Size")(program, ctypes.byref(size)))
    content = ctypes.create_string_buffer(size.value)
    _check(getattr(_library(), f"nvrtcGet{item}")(program, content))
    return content.raw


@cache
def _library() -> Any:
    """Return the library NVRTC, which MLX's CUDA build has already loaded. Calls of NVRTC release
    Python's global interpreter lock."""
    for name in _LIBRARIES:
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        library.nvrtcGetErrorString.restype = ctypes.c_char_p
        return library
    raise BuildError(f"NVIDIA's run-time compiler is missing: no {' and no '.join(_LIBRARIES)}")


@cache
def _include() -> tuple[str, ...]:
    """Return the compiler option for the header folder of the CUDA toolkit. The search for this
    folder is the same as in MLX."""
    roots = (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda")
    folders = [Path(folder) / "include" for folder in roots if folder]
    for packages in (*site.getsitepackages(), site.getusersitepackages()):
        folders += sorted(Path(packages).glob("nvidia/*/include"))
    for folder in folders:
        if (folder / _HEADER).is_file():
            return (f"--include-path={folder}",)
    return ()  # the compiler then reports the missing header


def _check(result: int) -> None:
    if result != 0:
        raise BuildError(f"nvrtc: {_library().nvrtcGetErrorString(result).decode()}")
