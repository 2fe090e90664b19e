"""Finding the kernels' text: `kernels/*.metal`, shared headers, and each back end's dialect."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from pathlib import Path

_INCLUDE = re.compile(r'^#include "(?P<name>[\w./]+)"$', re.MULTILINE)


@cache
def kernels_folder() -> Path:
    """Where the kernels are: inside the installed package, or beside it in the repository."""
    candidates = (
        Path(str(files("nerfmac"))) / "kernels",
        Path(__file__).resolve().parents[2] / "kernels",
    )
    for folder in candidates:
        if (folder / "hash_encode.metal").is_file():
            return folder
    raise FileNotFoundError(f"no kernels in {' or '.join(map(str, candidates))}; reinstall nerfmac")


@cache
def operations() -> tuple[str, ...]:
    """The names of all operations that have kernels, sorted."""
    return tuple(sorted(path.stem for path in kernels_folder().glob("*.metal")))


def dialect_source(dialect: str) -> str:
    """The header that gives `metal`, `cuda` or `cpu` the names it lacks."""
    return (kernels_folder() / "dialects" / dialect / "prelude.h").read_text()


@cache
def kernel_source(operation: str, dialect: str) -> str:
    """The text of `kernels/<operation>.metal` for `metal`, `cuda` or `cpu`: headers pasted in.

    A header is the dialect's where it has one of that name, else the one all dialects share.
    """
    folder = kernels_folder()
    dialect_folder = folder / "dialects" / dialect
    included: set[str] = set()

    def paste(match: re.Match[str]) -> str:
        name = match["name"]
        if name in included:
            return ""
        included.add(name)
        own = dialect_folder / name
        path = own if own.is_file() else folder / name
        return _INCLUDE.sub(paste, path.read_text())

    text = _INCLUDE.sub(paste, (folder / f"{operation}.metal").read_text())
    return dialect_source(dialect) + "\n" + text
