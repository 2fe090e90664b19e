"""Compilation of kernels on the user's machine, with a cache of the compiled files.

The name of a cached file contains a digest of all inputs to the compilation. If an input changes,
nerfmac builds a new file. The instruction sets of the processor are an input, because different
machines may share a cache folder. Files are written under a temporary name and then renamed, so
several processes can compile at the same time.
"""

import hashlib
import logging
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import NamedTuple, Protocol

import mlx.core as mx

from nerfmac.backend.host import (
    CACHE_ADVICE,
    cache_folder,
    processor_features,
    processor_name,
    processors,
)
from nerfmac.common import InputError, appearing

log = logging.getLogger("nerfmac")

_FLAGS = ("-O3", "-fPIC", "-shared")


class BuildError(RuntimeError):
    """Error that is raised if a kernel or the extension cannot be built or loaded."""


class Cached(Protocol):
    """Program that is compiled once on this machine and stored in the kernel cache.

    The methods raise `BuildError` if no compiler is found or if compilation fails.
    """

    @property
    def stem(self) -> str:
        """Beginning of the file name, which is followed by the digest."""

    def path(self) -> Path:
        """Return the path of the file in the cache."""

    def compile(self, path: Path) -> None:
        """Compile the program and write it to `path`."""


class Library(NamedTuple):
    """A shared library and the sources that it is compiled from."""

    stem: str  # beginning of the file name
    sources: tuple[tuple[str, str], ...]  # name and source code of each file
    flags: tuple[str, ...] = ()  # compiler flags, in addition to the flags for all libraries

    def path(self) -> Path:
        """Return the path of the file in the cache."""
        parts = (
            *(compiler_version(), processor_features(), platform.platform(), sys.version),
            *(*_FLAGS, *self.flags, *(text for _, text in self.sources)),
        )
        digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]
        return cache_folder() / f"{self.stem}-{digest}.so"

    def compile(self, path: Path) -> None:
        """Compile the library and write it to `path`."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory() as scratch, appearing(path) as partial:
                sources = []
                for name, text in self.sources:
                    sources.append(Path(scratch, name))
                    sources[-1].write_text(text)
                command = [compiler(), *_FLAGS, *map(str, sources), *self.flags, "-o", str(partial)]
                result = subprocess.run(command, capture_output=True, text=True, check=False)
                if result.returncode != 0:
                    messages = "\n".join(result.stderr.splitlines()[:12])
                    raise BuildError(f"{compiler()} failed on {path.stem}:\n{messages}")
        except InputError as error:
            raise BuildError(f"{error}; {CACHE_ADVICE}") from error
        except OSError as error:
            raise BuildError(f"cannot write {path}: {error.strerror}; {CACHE_ADVICE}") from error


@cache
def compiler() -> str:
    """Return the path of the C++ compiler: CXX if set, otherwise c++, g++, or clang++."""
    wanted = os.environ.get("CXX")
    for name in (wanted,) if wanted else ("c++", "g++", "clang++"):
        path = shutil.which(name)
        if path and not _is_stand_in(path):
            return path
    names = f"CXX={wanted}" if wanted else "c++, g++ and clang++"
    command = "xcode-select --install" if platform.system() == "Darwin" else "apt install g++"
    raise BuildError(f"no C++ compiler: looked for {names} on the PATH; try {command}")


def _is_stand_in(path: str) -> bool:
    """Return whether a compiler is only a placeholder, because Apple's command line tools are
    missing.

    Until the tools are installed, the compilers in /usr/bin open a window that offers to install
    them.
    """
    if platform.system() != "Darwin" or Path(path).parent != Path("/usr/bin"):
        return False
    found = subprocess.run(["xcode-select", "-p"], capture_output=True, check=False)
    return found.returncode != 0


@cache
def compiler_version() -> str:
    """Return the compiler's version and target processor as one line."""
    command = [compiler(), "--version"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise BuildError(f"{compiler()} does not run: {error.strerror}") from error
    lines = (result.stdout or result.stderr).splitlines()
    if result.returncode != 0 or not lines:
        raise BuildError(f"{compiler()} --version fails: {' '.join(lines)}")
    return f"{lines[0]}; {processor_name()}"


def shared_library(library: Library) -> Path:
    """Return the path of a library in the cache. If the library is missing, compile it."""
    compile_together([library])
    return library.path()


def compile_together(libraries: Iterable[Cached]) -> None:
    """Compile the libraries that are not in the cache, in parallel on all processors.

    If a library does not compile, `BuildError` is raised after all compilations have ended. Its
    message describes the first library that failed.
    """
    wanted = {library.path(): library for library in libraries}
    missing = {path: library for path, library in wanted.items() if not path.is_file()}
    if cached := [library for path, library in wanted.items() if path not in missing]:
        log.debug("found in the cache %s: %s", cache_folder(), _stems(cached))
    if not missing:
        return
    announce_compiling()
    log.debug("compiling %s", _stems(missing.values()))
    start = time.perf_counter()
    with ThreadPoolExecutor(processors()) as pool:
        futures = [pool.submit(library.compile, path) for path, library in missing.items()]
    for future in futures:
        future.result()
    log.debug("compiled in %.1f s", time.perf_counter() - start)


@cache  # once per process
def announce_compiling() -> None:
    """Log that compilation starts. If the cache already contains kernels, only a few kernels are
    missing, because another command or other settings need them."""
    if any(path.suffix in (".so", ".cubin") for path in cache_folder().glob("*.*")):
        log.info("compiling more kernels, which no command has used on this machine before ...")
    else:
        log.info("compiling kernels, once for this machine; this takes about 20 s ...")


@cache  # once per process
def announce_metal() -> None:
    """Log once for each version of nerfmac and MLX that macOS compiles the kernels, which it then
    stores. A marker file in the cache folder records this message."""
    from nerfmac.version import version  # Imported lazily: only Macs require it.

    marker = cache_folder() / f"metal-{version()}-{metadata.version('mlx')}"
    if not marker.exists():
        log.info("compiling kernels, once for this machine ...")
        with suppress(OSError):  # The folder may not be writable.
            marker.parent.mkdir(parents=True, exist_ok=True)
            marker.touch()


def type_in_c(name: str, dtype: mx.Dtype, types: Mapping[mx.Dtype, str], where: str) -> str:
    """Return the C type of an array's elements, looked up in `types`.

    `where` describes the back end for the error message, such as "as CUDA".
    """
    if dtype not in types:
        got, *known = (str(one).removeprefix("mlx.core.") for one in (dtype, *types))
        raise InputError(f"{name} is {got}; {where} kernels support {', '.join(known)}")
    return types[dtype]


def _stems(libraries: Iterable[Cached]) -> str:
    return ", ".join(sorted({library.stem for library in libraries}))
