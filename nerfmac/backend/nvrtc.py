"""Compilation of CUDA C++ to a binary for one GPU, with NVIDIA's run-time compiler (NVRTC).

MLX's CUDA build has already loaded the NVRTC library. Calls through ctypes release Python's global
interpreter lock, so several threads can compile at the same time.
"""

from __future__ import annotations

import ctypes
import os
import site
from functools import cache
from pathlib import Path
from typing import Any

from nerfmac.backend.build import BuildError

_LIBRARIES = ("libnvrtc.so.13", "libnvrtc.so.12")
_HEADER = "cuda_fp16.h"  # the only header of the CUDA toolkit that the kernels include


@cache
def version() -> str:
    """Return the version of the compiler. Raises `BuildError` if the compiler is not found."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    _check(_library().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
    return f"{major.value}.{minor.value}"


def compile_cubin(name: str, text: str, capability: tuple[int, int]) -> bytes:
    """Compile the program `text` to a binary for GPUs with a compute `capability`, such as (9, 0).

    Raises `BuildError` if the compiler is not found, or if the program does not compile. In the
    second case, the message contains `name` and the first lines of the compiler output.
    """
    library, program = _library(), ctypes.c_void_p()
    # The CUDA dialect of the kernels defines `device` as an empty macro, but some toolkit macros
    # contain the word.
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
    """Return the compiler option for the CUDA toolkit's header folder.

    The folder is searched in the same locations as in MLX.
    """
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
