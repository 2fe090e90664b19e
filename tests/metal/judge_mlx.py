"""Names that are reserved by MLX's own header, because MLX puts it before every kernel.

The header of the installed MLX is read, with the headers that it includes. clang cannot compile it,
because its types have members for each address space. However, its macros and the names that it
declares outside of functions and namespaces can be read from its source code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import mlx.core as mx

from tests.metal.judge_rules import Complaint, Rule
from tests.metal.judge_text import closing

INCLUDES = Path(mx.__file__).with_name("include")
HEADER = "mlx/backend/metal/kernels/utils.h"

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_INCLUDE = re.compile(r'^\s*#\s*include\s+"(?P<name>[^"]+)"', re.MULTILINE)
_MACRO = re.compile(r"^\s*#\s*define\s+(?P<name>\w+)", re.MULTILINE)
_GONE = re.compile(r"^\s*#\s*undef\s+(?P<name>\w+)", re.MULTILINE)
_DIRECTIVE = re.compile(r"^\s*#(?:[^\n\\]|\\.)*(?:\\\n(?:[^\n\\]|\\.)*)*$", re.MULTILINE)
_NAMESPACE = re.compile(r"namespace\s+\w+\s*\{")
_DECLARED = re.compile(
    r"\b(?:struct|class|enum)\s+(?P<type>\w+)\s*(?=[{;:])"
    r"|\btypedef\s[^;]*?(?P<alias>\w+)\s*;|\busing\s+(?P<name>\w+)\s*="
    r"|\b(?P<function>\w+)\s*\([^()]*(?:\([^()]*\)[^()]*)*\)\s*(?:const\s*)?(?=\{)"
    r"|\b(?P<constant>\w+)\s*=(?!=)"
)
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


@cache
def header_text() -> str:
    """The header and those that it includes, as they are."""
    texts, wanted, seen = [], [HEADER], set()
    while wanted:
        if (name := wanted.pop()) not in seen:
            seen.add(name)
            texts.append((INCLUDES / name).read_text(encoding="utf-8"))
            wanted += [match["name"] for match in _INCLUDE.finditer(texts[-1])]
    return "\n".join(texts)


def macros(text: str) -> set[str]:
    """The macros that a text leaves defined."""
    text = _COMMENT.sub("", text)
    return {m["name"] for m in _MACRO.finditer(text)} - {m["name"] for m in _GONE.finditer(text)}


def declared(text: str) -> set[str]:
    """The names that a text declares outside of functions, types and namespaces."""
    text = _DIRECTIVE.sub("", _COMMENT.sub("", text))
    while match := _NAMESPACE.search(text):
        text = text[: match.start()] + text[closing(text, match.end() - 1, "{}") + 1 :]
    at = 0
    while (start := text.find("{", at)) >= 0:
        text = text[: start + 1] + text[closing(text, start, "{}") :]
        at = start + 2
    return {name for match in _DECLARED.finditer(text) for name in match.groups() if name}


def complaints_of_header(text: str) -> Iterator[Complaint]:
    """Complain of names of a kernel's text that MLX's header has given a meaning already."""
    bare = _COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    taken = _of_header()
    clashing = declared(bare) & taken["declared"]
    for number, line in enumerate(bare.split("\n"), start=1):
        for word in _IDENTIFIER.findall(line):
            if word in taken["macros"]:
                yield Complaint(Rule.HEADER, number, f"'{word}' is a macro there")
            elif word in clashing:
                yield Complaint(Rule.HEADER, number, f"'{word}' is declared there")


@cache
def _of_header() -> dict[str, set[str]]:
    return {"macros": macros(header_text()), "declared": declared(header_text())}
