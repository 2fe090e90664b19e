"""Kernel source code: `kernels/*.metal`, their headers, and a dialect for each back end."""

import json
import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

from nerfmac.common import InputError, declarations

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"(?P<name>[^"\n]+)"[ \t]*(//.*)?$', re.MULTILINE)


@cache
def kernels_folder() -> Path:
    """Return the folder of the kernels, which is inside the installed package or, in a checkout,
    next to the package."""
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
    """Return the sorted names of all operations that have kernels."""
    return tuple(sorted(path.stem for path in kernels_folder().glob("*.metal")))


def dialect_source(dialect: str) -> str:
    """Return the source code that precedes every kernel on a back end: shared constants and Metal
    names.

    `dialect` is `metal`, `cuda`, or `cpu`.
    """
    header = (kernels_folder() / "dialects" / dialect / "prelude.h").read_text()
    return declarations(dialect) + header


@cache
def kernel_source(operation: str, dialect: str) -> str:
    """Return the source code of `kernels/<operation>.metal` with its headers.

    If a dialect has a header with the same name as a common header, the dialect's header is used.
    """
    text = (kernels_folder() / f"{operation}.metal").read_text()
    return dialect_source(dialect) + "\n" + _pasted(text, _header_folders(dialect), set())


def user_source(source: Path | str, name: str, dialect: str) -> str:
    """Return the source code of a user-defined kernel with its headers.

    Headers are searched first in the folder that contains the file, then in `kernels/`. The result
    contains `#line` directives, so that compiler messages refer to lines of the user's files.
    """
    folders = _header_folders(dialect)
    if isinstance(source, Path):
        folders, source = (source.parent, *folders), read_ascii(source)
    return dialect_source(dialect) + "\n" + _pasted(source, folders, set(), name)


def read_ascii(path: Path) -> str:
    """Read an ASCII text file. MLX requires ASCII source code."""
    try:
        return path.read_text(encoding="ascii")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} has a character that is not ASCII, at byte {error.start}"
        ) from error


def _header_folders(dialect: str) -> tuple[Path, ...]:
    return kernels_folder() / "dialects" / dialect, kernels_folder()


def _pasted(text: str, folders: Sequence[Path], included: set[Path], name: str = "") -> str:
    """Replace the first include of each header in `text` with the contents of the header.

    If `name` is not empty, the result contains `#line` directives with this file name.
    """

    def paste(match: re.Match[str]) -> str:
        paths = [folder / match["name"] for folder in folders]
        path = next(filter(Path.is_file, paths), None)
        if path is None:
            looked_in = " or ".join(map(str, folders))
            raise InputError(f'{name} includes "{match["name"]}", which is not in {looked_in}')
        if path in included:
            return ""
        included.add(path)
        header = _pasted(read_ascii(path), folders, included, path.name if name else "")
        line = text.count("\n", 0, match.start()) + 2
        return f"{header}\n{_marked(line, name)}" if name else header

    pasted = _INCLUDE.sub(paste, text)
    return f"{_marked(1, name)}\n{pasted}" if name else pasted


def _marked(line: int, name: str) -> str:
    return f"#line {line} {json.dumps(name)}"
