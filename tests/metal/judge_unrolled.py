"""Finds arrays of a thread that a kernel indexes with a run-time value.

Registers have no addresses: a compiler can keep an array of matrices, or the elements of a matrix,
in registers only if each index is constant after unrolling the loops. Otherwise it may keep them in
memory. Each index is traced, in the unoptimized representation of a function, to the variables that
it is computed from. Every value stored in one of these variables must be a constant, or come from a
loop around both store and access that is unrolled.

The same rule applies to other arrays of a thread inside an unrolled loop. A Metal compiler is known
to have read 0 from an array at a run-time index in a very large kernel (quadrants, issue 835).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping

_LABEL = re.compile(r"^(?P<label>[\w.]+):")
_DEFINED = re.compile(r"^\s*(?P<name>%[\w.]+) = (?P<what>.*)$")
_STORE = re.compile(r"^\s*store \S+ (?P<value>[^,\s]+), ptr (?P<to>%[\w.]+)")
_BACK = re.compile(r"^\s*br label %(?P<label>[\w.]+).*!llvm\.loop (?P<node>!\d+)")
_LOAD = re.compile(r"load [^,]+, ptr (?P<name>%[\w.]+)")
_VALUE = re.compile(r"%(?!struct\.|class\.|union\.)[\w.]+")
_ELEMENT = re.compile(r"(?:extract|insert)element <64 x .*, i\d+ (?P<index>%[\w.]+)(?:, !|$)")
_POINTER = re.compile(
    r"getelementptr inbounds (?P<type>.+?), ptr [^,]+(?P<indices>(?:, i\d+ [^,\s]+)+)"
)
_BASE = re.compile(r"getelementptr inbounds .+?, ptr (?P<base>%[\w.]+)")
_INDEX = re.compile(r"i\d+ (%[\w.]+)")
_PLACE = re.compile(r"!dbg (?P<node>!\d+)")

_UNROLLED = re.compile(r"llvm\.loop\.unroll\.(?:enable|full)")


def run_time_indices(
    body: str, matrices: frozenset[str], nodes: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Variable and debug node of each access to matrices with an index that is not constant.

    `matrices` are names of types with a matrix, and `nodes` the lines of the program's metadata.
    """
    function = _Function(body, nodes)
    for at, line in enumerate(function.lines):
        for index in _indices(line, matrices):
            if not function.is_constant(index, at, set()):
                place = _PLACE.search(line)
                yield index, place["node"] if place else ""


def run_time_indices_of_arrays(body: str, nodes: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Variable and debug node of each run-time index of a thread's array in unrolled loops."""
    function = _Function(body, nodes)
    for at, line in enumerate(function.lines):
        pointer = _POINTER.search(line)
        if not (pointer and pointer["type"].startswith("[") and function.is_to_be_unrolled(at)):
            continue
        for index in _INDEX.findall(pointer["indices"]):
            if function.is_own(line) and not function.is_constant(index, at, set()):
                place = _PLACE.search(line)
                yield index, place["node"] if place else ""


def _indices(line: str, matrices: frozenset[str]) -> list[str]:
    """Return the values with which an instruction selects a matrix, or an element of one."""
    if element := _ELEMENT.search(line):
        return [element["index"]]
    pointer = _POINTER.search(line)
    if pointer and any(name in pointer["type"] for name in matrices):
        return _INDEX.findall(pointer["indices"])
    return []


class _Function:
    """Instructions of a function: the definition of each value, the stores, and the loops."""

    def __init__(self, body: str, nodes: Mapping[str, str]) -> None:
        self.lines = body.splitlines()
        self._defined: dict[str, str] = {}
        self._stores: dict[str, list[tuple[int, str]]] = defaultdict(list)  # line and value
        self._loops: list[tuple[int, int, bool]] = []  # first line, last line, to be unrolled
        labels: dict[str, int] = {}
        for at, line in enumerate(self.lines):
            if match := _LABEL.match(line):
                labels[match["label"]] = at
            elif match := _DEFINED.match(line):
                self._defined[match["name"]] = match["what"].partition("!dbg")[0]
            elif match := _STORE.match(line):
                self._stores[match["to"]].append((at, match["value"]))
            elif (match := _BACK.match(line)) and match["label"] in labels:
                is_unrolled = bool(_UNROLLED.search(_with_parts(match["node"], nodes)))
                self._loops.append((labels[match["label"]], at, is_unrolled))

    def is_to_be_unrolled(self, at: int) -> bool:
        """Whether line `at` is inside a loop that is to be unrolled."""
        return any(first <= at <= last and unrolled for first, last, unrolled in self._loops)

    def is_own(self, access: str) -> bool:
        """Whether an instruction addresses an element of one of the function's own variables."""
        while match := _BASE.search(access):
            access = self._defined.get(match["base"], "")
        return access.startswith("alloca")

    def is_constant(self, value: str, at: int, seen: set[str]) -> bool:
        """Whether `value` is a constant at line `at` once loops are unrolled."""
        what = self._defined.get(value)
        if what is None or " call " in f" {what}":
            return False  # an argument, or the result of a function
        load = _LOAD.match(what)
        if not load:
            return all(self.is_constant(part, at, seen) for part in _VALUE.findall(what))
        name = load["name"]
        if not self._defined.get(name, "").startswith("alloca"):
            return False  # of memory that others may write
        if name in seen:
            return True
        return all(
            self._is_known(stored, line, at, {*seen, name}) for line, stored in self._stores[name]
        )

    def _is_known(self, stored: str, line: int, at: int, seen: set[str]) -> bool:
        """Whether what line `line` stores is a constant for an access at line `at`."""
        if not stored.startswith("%"):
            return True
        first, last = min(line, at), max(line, at)
        around = [loop for loop in self._loops if loop[0] <= first and last <= loop[1]]
        innermost = min(around, key=lambda loop: loop[1] - loop[0], default=(0, 0, True))
        return innermost[2] and self.is_constant(stored, at, seen)


def _with_parts(node: str, nodes: Mapping[str, str]) -> str:
    """The text of a metadata node and of those that it names."""
    own = nodes.get(node, "")
    return own + "".join(nodes.get(part, "") for part in re.findall(r"!\d+", own))


def matrix_types(program: str) -> frozenset[str]:
    """The names of the types of a `program` that hold a simdgroup matrix."""
    types = dict(re.findall(r'^(%(?:"[^"]+"|[\w.]+)) = type \{(.*)\}$', program, re.MULTILINE))
    found: set[str] = set()
    more = {name for name in types if "simdgroup_matrix" in name}
    while more:
        found |= more
        more = {name for name in {*types} - found if any(each in types[name] for each in found)}
    return frozenset(found)
