"""Checks of Metal rules that clang cannot check, and conversion of the source code to C++.

Metal's syntax extensions are small: attributes on a kernel and its parameters, a last line that
creates an instance, and arrays in threadgroup memory. Only the checked parts are removed, so that
clang sees, and rejects, all remaining differences.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from tests.metal.judge_rules import Complaint, Rule
from tests.metal.judge_words import complaints_of_words

_VECTORS = {  # what a kernel can ask for, as a position or a size along each axis
    "thread_position_in_grid",
    "thread_position_in_threadgroup",
    "threadgroup_position_in_grid",
    "threadgroups_per_grid",
    "threads_per_grid",
    "threads_per_threadgroup",
}
_SCALARS = {  # or as one number
    "simdgroup_index_in_threadgroup",
    "simdgroups_per_threadgroup",
    "thread_index_in_simdgroup",
    "thread_index_in_threadgroup",
    "threads_per_simdgroup",
}

_BUFFERS = 31

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_STRUCT = re.compile(r"\bstruct\s[^;{}]*?(\w+)\s*\{")
_HALF = re.compile(r"(?<![\w.])((?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?)[hH]\b")  # 1.0h
_KERNEL = re.compile(r"\[\[kernel\]\]\s+(?P<returns>[^()\[\];]+?)\s+(?P<name>\w+)\s*\(")
_ATTRIBUTE = re.compile(r"\s*\[\[\s*(?P<name>\w+)\s*(?:\((?P<argument>[^()]*)\)\s*)?\]\]")
_INSTANCE = re.compile(
    r'template \[\[host_name\("(?P<host>[^"]*)"\)\]\] \[\[kernel\]\] '
    r"decltype\((?P<whose>\w+<.*>)\) (?P<which>(?P<name>\w+)<.*>);"
)
_THREADGROUP = re.compile(r"(?<=[;{}])\s*(threadgroup\s[\w<>,:\s]+\s\w+\s*(?:\[[^];]*\]\s*)*);")


class Source:
    """Source code of a kernel, and the broken rules in it."""

    def __init__(self, text: str) -> None:
        self._text = _COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
        self.complaints = [*_beyond_ascii(text), *complaints_of_words(self._text)]
        self._edits: list[tuple[int, int, str]] = []
        self._signatures: dict[str, str] = {}
        self._templates: dict[str, int] = {}  # those without an instance, and their lines
        self._read_kernels()
        self._read_instances()

    def cpp(self) -> str:
        """The text as C++, each line where it was."""
        text = self._text
        for start, end, replacement in sorted(self._edits, reverse=True):
            text = text[:start] + replacement + text[end:]
        text = _HALF.sub(r"half(\1f)", text)
        return _STRUCT.sub(r"\g<0> METAL_STRUCT(\1)", text)

    def _complain(self, rule: Rule, line: int, message: str) -> None:
        self.complaints.append(Complaint(rule, line, message))

    def _line(self, position: int) -> int:
        return self._text.count("\n", 0, position) + 1

    def _read_kernels(self) -> None:
        for match in _KERNEL.finditer(self._text):
            line = self._line(match.start())
            self._edits.append((match.start(), match.start() + len("[[kernel]]"), ""))
            if match["returns"] != "void":
                self._complain(Rule.SIGNATURE, line, f"a kernel returns '{match['returns']}'")
            if self._text[: match.start()].rstrip().endswith(">"):
                self._templates[match["name"]] = line
            end = closing(self._text, match.end() - 1, "()")
            self._read_parameters(match["name"], match.end(), end)
            start = self._text.index("{", end)
            self._read_body(start, closing(self._text, start, "{}"))
        if not self._signatures:
            self._complain(Rule.SIGNATURE, 0, "no kernel")

    def _read_parameters(self, kernel: str, start: int, end: int) -> None:
        types: list[str] = []
        buffers: list[int] = []
        widths: set[str] = set()
        for first, last in _split(self._text, start, end):
            text = self._text[first:last]
            attributes = list(_ATTRIBUTE.finditer(text))
            declared = text[: attributes[0].start()] if attributes else text
            of_type, name = re.fullmatch(r"\s*(.*?)\s*(\w*)\s*", declared, re.DOTALL).groups()
            types.append(" ".join(of_type.split()))
            line = self._line(first + len(text) - len(text.lstrip()))
            if len(attributes) != 1:
                self._complain(Rule.ATTRIBUTE, line, f"'{name}' needs one attribute")
                continue
            (attribute,) = attributes
            wrong = _wrong_parameter(types[-1], attribute)
            if wrong:
                self._complain(Rule.ATTRIBUTE, line, f"'{name}': {wrong}")
                continue
            self._edits.append((first + attribute.start(), first + attribute.end(), ""))
            if attribute["name"] == "buffer":
                buffers.append(int(attribute["argument"]))
            elif attribute["name"] in _VECTORS:
                widths.add(types[-1].lstrip("ushortin"))
        line = self._line(start)
        if len(set(buffers)) < len(buffers) or max(buffers, default=0) >= _BUFFERS:
            self._complain(Rule.BUFFERS, line, f"buffers {', '.join(map(str, buffers))}")
        if len(widths) > 1:
            self._complain(Rule.ATTRIBUTE, line, "positions and sizes of different dimensions")
        self._signatures[kernel] = f"({', '.join(types)})"

    def _read_body(self, start: int, end: int) -> None:
        for match in _THREADGROUP.finditer(self._text, start, end):
            before = self._text[start : match.start(1)]
            if before.count("{") - before.count("}") == 1:
                # An atomic has a constructor, but clang finds it only for its own address space.
                self._edits.append((match.start(1), match.start(1), "static "))
                self._edits.append((match.end(1), match.end(1), " = {}"))

    def _read_instances(self) -> None:
        for match in _INSTANCE.finditer(self._text):
            name, which = match["name"], match["which"]
            if match["host"] != name or match["whose"] != which or name not in self._signatures:
                line = self._line(match.start())
                self._complain(Rule.HOST_NAME, line, f"names differ in '{match[0]}'")
            else:
                instance = f"template void {which}{self._signatures[name]};"
                self._edits.append((*match.span(), instance))
            self._templates.pop(name, None)
        for name, line in self._templates.items():
            self._complain(Rule.HOST_NAME, line, f"no instance of the template '{name}'")


def _beyond_ascii(text: str) -> Iterator[Complaint]:
    for number, line in enumerate(text.split("\n"), start=1):
        for character in sorted({each for each in line if not each.isascii()}):
            yield Complaint(Rule.ASCII, number, f"{character!r} is not ASCII")


def _wrong_parameter(of_type: str, attribute: re.Match[str]) -> str | None:
    name, argument = attribute["name"], attribute["argument"]
    if name == "buffer":
        if not (argument and argument.strip().isdecimal()):
            return f"'{argument}' is no buffer's index"
        where = {"device", "constant"}.intersection(re.findall(r"\w+", of_type))
        if not (where and of_type.endswith(("*", "&"))):
            return f"a buffer is a pointer or reference in device or constant, not '{of_type}'"
        return None
    if name not in _VECTORS | _SCALARS or argument is not None:
        return f"{attribute[0].strip()} is no attribute of a parameter"
    if not re.fullmatch(r"u(?:int|short)[23]?" if name in _VECTORS else r"u(?:int|short)", of_type):
        return f"{name} is no '{of_type}'"
    return None


def closing(text: str, start: int, pair: str) -> int:
    """Where the bracket that opens at `start` closes; the end if it does not."""
    depth = 0
    for i in range(start, len(text)):
        depth += (text[i] == pair[0]) - (text[i] == pair[1])
        if depth == 0:
            return i
    return len(text)


def _split(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The pieces of text[start:end] between the commas outside brackets."""
    depth, cuts = 0, [start - 1]
    for i in range(start, end):
        depth += (text[i] in "(<[") - (text[i] in ")>]")
        if text[i] == "," and depth == 0:
            cuts.append(i)
    for before, after in pairwise([*cuts, end]):
        yield before + 1, after
