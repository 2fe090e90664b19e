"""NVIDIA's run-time compiler (NVRTC): CUDA C++ to a binary for one GPU.

MLX's CUDA build has loaded the library. Calls through ctypes release Python's global lock, so
several threads may compile at once.
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
    """The compiler's version. Raises `BuildError` without a compiler."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    _check(_library().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
    return f"{major.value}.{minor.value}"


def compile_cubin(name: str, text: str, capability: tuple[int, int]) -> bytes:
    """The binary of the program `text` for GPUs of a compute `capability`, such as (9, 0).

    Raises `BuildError` without a compiler, and for a faulty program, with `name` and the first
    lines of the compiler's messages.
    """
    library, program = _library(), ctypes.c_void_p()
    # The dialect defines `device` as an empty macro, but some macros of the toolkit contain it.
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
    """The option for the folder of the CUDA toolkit's headers, looked for where MLX looks."""
    roots = (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda")
    folders = [Path(folder) / "include" for folder in roots if folder]
    for packages in (*site.getsitepackages(), site.getusersitepackages()):
        folders += sorted(Path(packages).glob("nvidia/*/include"))
    for folder in folders:
        if (folder / _HEADER).is_file():
            return (f"--include-path={folder}",)
    return ()  # the compiler then names the missing header


def _check(result: int) -> None:
    if result != 0:
        raise BuildError(f"nvrtc: {_library().nvrtcGetErrorString(result).decode()}")
