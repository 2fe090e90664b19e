"""Checks the source code that MLX passes to the Metal compiler with clang, on any machine.

The source code, as recorded with `nerfmac.backend.metal_text`, is checked for Metal syntax
(judge_text.py) and for names that MLX's own header defines (judge_mlx.py). It is compiled against a
header with Metal's names and types (metal_stdlib.h), and the resulting program is checked for rules
about the whole program (judge_ir.py). Source code that clang and Metal could interpret differently
is rejected: accepted source code has the same meaning for both.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.metal.judge_ir import Program
from tests.metal.judge_mlx import complaints_of_header
from tests.metal.judge_rules import Complaint, Rule
from tests.metal.judge_text import Source

HERE = Path(__file__).parent

_FOLDER = TemporaryDirectory()  # removed when the process ends

_FILE = "kernel"  # what clang is told that the text is called

_CANDIDATES = ("clang++", *(f"clang++-{version}" for version in range(21, 14, -1)))
_OLDEST = 15  # the first with half on x86

_WARNINGS = {
    "unknown-attributes": Rule.ATTRIBUTE,
    "uninitialized": Rule.UNINITIALIZED,
    "conditional-uninitialized": Rule.UNINITIALIZED,
    "sometimes-uninitialized": Rule.UNINITIALIZED,
    "uninitialized-const-reference": Rule.UNINITIALIZED,
    "return-type": Rule.RETURN,
    "shadow": Rule.SHADOW,
    "c++11-narrowing": Rule.NARROWING,
    # Errors in C++17. Disabling the warnings would disable them too.
    "increment-bool": Rule.LANGUAGE,
    "dynamic-exception-spec": Rule.LANGUAGE,
}

_ERRORS = {
    r"automatic variable qualified with an address space": Rule.THREADGROUP,
    r"undefined template 'metal::atomic<|incomplete type .*atomic<": Rule.ATOMIC,
    r"'this' object is in address space": Rule.STRUCT,
    r"matrix_storage|a simdgroup_matrix has": Rule.MATRIX,
    r"read-only|const-qualified|loses const|drops 'const'|discards qualifiers": Rule.READ_ONLY,
    r"address space|\b(?:device|constant|threadgroup) \w+ \*": Rule.ADDRESS_SPACE,
    r"variable length array": Rule.ARRAY_LENGTH,
    r"no matching function|is ambiguous|undeclared identifier|no member named": Rule.FUNCTION,
    r"\bvec<|vector of \d|cannot convert between vector": Rule.VECTOR,
}

_DIALECTS = ("c++14", "c++17")  # Metal 3's, and Metal 4's, of macOS 26 and 27

_OPTIONS = (
    *("--target=spir64", "-O0", "-g", "-nostdinc", "-fno-exceptions", "-fno-rtti"),
    *("-flax-vector-conversions=none", "-Wno-everything"),
    *(f"-Werror={warning}" for warning in _WARNINGS),
)
_TEXT = (*_OPTIONS, "-x", "c++", "-fno-caret-diagnostics", "-fno-elide-type", "-ferror-limit=0")
# All that is written is compiled, and nothing taken away. A GPU's conventions do not make a pair of
# integers into a double, as x86's do.
_WHOLE = ("-S", "-emit-llvm", "-o", "-", "-femit-all-decls", "-Xclang", "-disable-llvm-passes")

_DIAGNOSTIC = re.compile(
    r"^(?P<file>[^:\n]+):(?P<line>\d+):\d+: (?P<kind>(?:fatal )?error|warning|note): "
    r"(?P<message>.*?)(?: \[(?P<flags>[^][]*)\])?$"
)


# Where the kernel begins in a text that MLX wrote.
_KERNELS = re.compile(r"^(template <[^;{}]*>\n)?\[\[kernel\]\]", re.MULTILINE)


def judge(text: str) -> list[Complaint]:
    """Return the errors that Metal would report for a launch, by line; empty if it compiles."""
    source = Source(text)
    cpp = f'#line 1 "{_FILE}"\n{source.cpp()}'
    older, newer = _DIALECTS
    compiled = _compiled(cpp, older, *_WHOLE)
    complaints = [*source.complaints, *complaints_of_header(text), *_of_clang(compiled.stderr)]
    if compiled.returncode == 0:
        complaints += Program(compiled.stdout, _FILE).complaints()
        complaints += _of_clang(_compiled(cpp, newer, "-fsyntax-only").stderr)
    elif not complaints:
        complaints = [Complaint(Rule.LANGUAGE, 0, compiled.stderr)]
    return sorted(set(complaints), key=lambda complaint: complaint.line)


def judge_all(texts: Iterable[str]) -> dict[str, list[Complaint]]:
    """Return the result of `judge` for several sources, a few of one operation at a time.

    Sources of one operation differ in their kernels only, so one program can contain several
    kernels and the common part once. Sources in a rejected program are judged again one by one.
    """
    alike: dict[str, list[str]] = defaultdict(list)
    for text in dict.fromkeys(texts):
        alike[text[: _KERNELS.search(text).start()]].append(text)
    several = [
        (head, some) for head, all_of_them in alike.items() for some in _batches(all_of_them)
    ]

    def judge_several(head: str, some: Sequence[str]) -> dict[str, list[Complaint]]:
        if not judge(head + "".join(text.removeprefix(head) for text in some)):
            return {text: [] for text in some}
        return {text: judge(text) for text in some}

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        judged = pool.map(judge_several, *zip(*several, strict=True))
        return {text: complaints for each in judged for text, complaints in each.items()}


def _batches(texts: Sequence[str], most: int = 12) -> Iterator[Sequence[str]]:
    """`texts` in their order, at most so many at a time."""
    for first in range(0, len(texts), most):
        yield texts[first : first + most]


def _compiled(cpp: str, dialect: str, *options: str) -> subprocess.CompletedProcess[str]:
    words = [clang(), f"-std={dialect}", *_TEXT, *options, "-include-pch", _header(dialect), "-"]
    return subprocess.run(words, input=cpp, capture_output=True, text=True, check=False)


@cache
def _header(dialect: str) -> str:
    """Metal's names, compiled: of a program's they become those that it uses."""
    built = Path(_FOLDER.name, f"{dialect}.pch")
    words = [clang(), f"-std={dialect}", *_OPTIONS, "-x", "c++-header"]
    subprocess.run([*words, HERE / "metal_stdlib.h", "-o", built], check=True)
    return str(built)


@cache
def clang() -> str:
    """Return the compiler: $NERFMAC_CLANG, or the first on the path. Without one, skip the test."""
    named = os.environ.get("NERFMAC_CLANG")
    for candidate in [named] if named else _CANDIDATES:
        path = shutil.which(candidate)
        if path and _version(path) >= _OLDEST:
            return path
    reason = "needs clang++ (scripts/install_clang.sh installs it)"
    if os.environ.get("CI"):  # where a test that is skipped would go unseen
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def _version(path: str) -> int:
    said = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"clang version (\d+)", said)
    return int(found[1]) if found else 0


def _of_clang(diagnostics: str) -> Iterator[Complaint]:
    """A complaint for each error, at the first line of the text that it or its notes name."""
    errors: list[list[re.Match[str]]] = []
    for line in diagnostics.splitlines():
        match = _DIAGNOSTIC.match(line)
        if match and match["kind"] != "note":
            errors.append([match])
        elif match and errors and not match["message"].startswith("expanded from"):
            errors[-1].append(match)
    for error in errors:
        line = next((int(match["line"]) for match in error if match["file"] == _FILE), 0)
        yield Complaint(
            _rule(*error), line, _readable("; ".join(each["message"] for each in error))
        )


def _rule(error: re.Match[str], *notes: re.Match[str]) -> Rule:
    for flag in (error["flags"] or "").split(","):
        if flag.removeprefix("-W") in _WARNINGS:
            return _WARNINGS[flag.removeprefix("-W")]
    message = "\n".join(match["message"] for match in (error, *notes))
    if message.startswith("no matching function") and any(note["file"] != _FILE for note in notes):
        return Rule.FUNCTION  # of Metal's, for whatever reason each candidate gives
    for pattern, rule in _ERRORS.items():
        if re.search(pattern, message):
            return rule
    return Rule.LANGUAGE


def _readable(message: str) -> str:
    for number, name in enumerate(("device", "constant", "threadgroup"), start=1):
        message = message.replace(f"__attribute__((address_space({number})))", name)
    return message
