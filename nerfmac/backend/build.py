"""Compiling C++ on the user's machine, once: a cache of shared libraries.

A library's name holds a digest of all that can change it, so an upgrade of MLX, nanobind, the
compiler or our own sources builds a new one and never loads an old one. It is written under another
name and moved into place, so several processes may start at once.
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
from functools import cache
from pathlib import Path

from nerfmac.backend.cache import cache_folder
from nerfmac.backend.device import processor_name

log = logging.getLogger("nerfmac")

_FLAGS = ("-std=c++20", "-O3", "-fPIC", "-shared")

# Seconds spent compiling in this process; reported with a run.
build_seconds = 0.0


class BuildError(RuntimeError):
    """There is no compiler, or it failed; the message says which and what it printed."""


@cache
def compiler() -> str:
    """Path of the C++ compiler: `$CXX`, else the first of c++, g++ and clang++ on the PATH."""
    wanted = os.environ.get("CXX")
    for name in (wanted,) if wanted else ("c++", "g++", "clang++"):
        if path := shutil.which(name):
            return path
    looked_for = f"CXX={wanted}" if wanted else "c++, g++ and clang++"
    raise BuildError(f"no C++ compiler: looked for {looked_for} on the PATH")


@cache
def compiler_version() -> str:
    """What the compiler says of itself, in one line, and the processor it compiles for."""
    command = [compiler(), "--version"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise BuildError(f"{compiler()} does not run: {error.strerror}") from error
    lines = (result.stdout or result.stderr).splitlines()
    if result.returncode != 0 or not lines:
        raise BuildError(f"{compiler()} does not tell its version: {' '.join(lines)}")
    return f"{lines[0]}; {processor_name()}"


def shared_library(
    stem: str, sources: dict[str, str], flags: tuple[str, ...] = (), suffix: str = ".so"
) -> Path:
    """Compile `sources` (file name -> text) into one library; return its path.

    `flags` follow the common ones. Raises `BuildError`.
    """
    global build_seconds
    parts = (compiler_version(), platform.platform(), sys.version, *_FLAGS, *flags)
    digest = hashlib.sha256("\0".join((*parts, *sources.values())).encode()).hexdigest()[:20]
    library = cache_folder() / f"{stem}-{digest}{suffix}"
    if library.is_file():
        return library
    start = time.perf_counter()
    log.info("compiling %s for the CPU, once for this machine ...", stem)
    try:
        _compile(library, sources, flags)
    except OSError as error:
        raise BuildError(f"cannot write {library}: {error.strerror}") from error
    build_seconds += time.perf_counter() - start
    return library


def _compile(library: Path, sources: dict[str, str], flags: tuple[str, ...]) -> None:
    library.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=library.parent) as scratch:
        paths = []
        for name, text in sources.items():
            paths.append(Path(scratch, name))
            paths[-1].write_text(text)
        built = Path(scratch, library.name)
        command = [compiler(), *_FLAGS, *map(str, paths), *flags, "-o", str(built)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            tail = "\n".join(result.stderr.splitlines()[:12])
            raise BuildError(f"{' '.join(command[:1])} failed on {library.stem}:\n{tail}")
        os.replace(built, library)
