"""Compiling on the user's machine, once: a cache of what was compiled.

A file's name holds a digest of everything that it depends on. For a shared library these are the
sources, the versions of MLX, nanobind and the compiler, and the processor's instructions, since
several machines may have one cache folder. If any of these changes, a new one is built, and the old
one is never loaded. A file is written under another name and moved into place, so several processes
may build at once.
"""

from __future__ import annotations

import hashlib
import logging
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import NamedTuple, Protocol

from nerfmac.backend.cache import ELSEWHERE, cache_folder
from nerfmac.backend.device import processor_features, processor_name, processors

log = logging.getLogger("nerfmac")

_FLAGS = ("-O3", "-fPIC", "-shared")


class BuildError(RuntimeError):
    """A kernel or our extension cannot be built or loaded; the message says why and what helps."""


class Cached(Protocol):
    """What is compiled once on this machine, and kept in a file of the cache."""

    @property
    def stem(self) -> str:
        """Beginning of the file's name."""

    def path(self) -> Path:
        """The file, once it is compiled. Raises `BuildError`."""

    def compile(self, path: Path) -> None:
        """Write the file to `path`. Raises `BuildError`."""


class Library(NamedTuple):
    """A shared library that may have to be compiled."""

    stem: str  # beginning of its file's name
    sources: dict[str, str]  # file name -> text
    flags: tuple[str, ...] = ()  # after the flags of every library

    def path(self) -> Path:
        """Its file in the cache, once it is compiled. Raises `BuildError`."""
        parts = (
            *(compiler_version(), processor_features(), platform.platform(), sys.version),
            *(*_FLAGS, *self.flags, *self.sources.values()),
        )
        digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]
        return cache_folder() / f"{self.stem}-{digest}.so"

    def compile(self, path: Path) -> None:
        """Write the library to `path`. Raises `BuildError`."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
                built = Path(scratch, path.name)
                sources = []
                for name, text in self.sources.items():
                    sources.append(Path(scratch, name))
                    sources[-1].write_text(text)
                command = [compiler(), *_FLAGS, *map(str, sources), *self.flags, "-o", str(built)]
                result = subprocess.run(command, capture_output=True, text=True, check=False)
                if result.returncode != 0:
                    said = "\n".join(result.stderr.splitlines()[:12])
                    raise BuildError(f"{compiler()} failed on {path.stem}:\n{said}")
                os.replace(built, path)
        except OSError as error:
            raise BuildError(f"cannot write {path}: {error.strerror}; {ELSEWHERE}") from error


@cache
def compiler() -> str:
    """Path of the C++ compiler: `$CXX`, else the first of c++, g++ and clang++ on the PATH."""
    wanted = os.environ.get("CXX")
    for name in (wanted,) if wanted else ("c++", "g++", "clang++"):
        if path := shutil.which(name):
            return path
    looked_for = f"CXX={wanted}" if wanted else "c++, g++ and clang++"
    get_one = "xcode-select --install" if platform.system() == "Darwin" else "apt install g++"
    raise BuildError(f"no C++ compiler: looked for {looked_for} on the PATH; try {get_one}")


@cache
def compiler_version() -> str:
    """The compiler's version, in one line, and the processor that it compiles for."""
    command = [compiler(), "--version"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise BuildError(f"{compiler()} does not run: {error.strerror}") from error
    lines = (result.stdout or result.stderr).splitlines()
    if result.returncode != 0 or not lines:
        raise BuildError(f"{compiler()} does not tell its version: {' '.join(lines)}")
    return f"{lines[0]}; {processor_name()}"


def shared_library(library: Library) -> Path:
    """Compile `library` unless the cache has it; return its path. Raises `BuildError`."""
    compile_together([library])
    return library.path()


def compile_together(libraries: Iterable[Cached]) -> None:
    """Compile those of the `libraries` that the cache lacks, as many at a time as there are cores.

    If any fails, raises the first one's `BuildError` after all have ended.
    """
    wanted = {library.path(): library for library in libraries}
    missing = {path: library for path, library in wanted.items() if not path.is_file()}
    if found := [library for path, library in wanted.items() if path not in missing]:
        log.debug("found in the cache %s: %s", cache_folder(), _stems(found))
    if not missing:
        return
    log.info("compiling %s, once for this machine ...", _stems(missing.values()))
    start = time.perf_counter()
    with ThreadPoolExecutor(processors()) as pool:
        done = [pool.submit(library.compile, path) for path, library in missing.items()]
    for each in done:
        each.result()
    log.debug("compiled in %.1f s", time.perf_counter() - start)


def _stems(libraries: Iterable[Cached]) -> str:
    return ", ".join(sorted({library.stem for library in libraries}))
