"""Rules about calls, and about address spaces and sizes of variables, in clang's LLVM IR."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, cached_property

from tests.metal.judge_rules import Complaint, Rule
from tests.metal.judge_unrolled import matrix_types, run_time_indices, run_time_indices_of_arrays

THREADGROUP_BYTES = 32 * 1024
LANE_BYTES = 4096
"""Maximum matrix bytes per lane. A lane of an M1 has 512 bytes of registers, and the gradient of
preset base uses as many for sums alone. More than eight times that is considered a mistake."""

_CONSTANT, _THREADGROUP = "addrspace(2)", "addrspace(3)"  # of metal_stdlib.h

_SYMBOL = r'@(?P<symbol>"[^"]+"|[\w.$]+)'
_FUNCTION = re.compile(
    rf"^define [^@\n]*{_SYMBOL}\([^\n]*!dbg (?P<node>!\d+) \{{\n(?P<body>.*?)^\}}",
    re.MULTILINE | re.DOTALL,
)
_GLOBAL = re.compile(
    rf"^{_SYMBOL} = (?P<kind>.*?)\b(?:global|constant) .*!dbg (?P<node>!\d+)", re.MULTILINE
)
_NODE = re.compile(r"^(!\d+) = (.*)$", re.MULTILINE)
_FIELD = re.compile(r'(\w+): ("[^"]*"|![\d]+|\w+)')
_CALLED = re.compile(rf"\bcall [^@\n]*{_SYMBOL}\(")
_DECLARED = re.compile(r"^declare [^@]*@(_Z(?!N7runtime)\w+)\(", re.MULTILINE)
_PLACE = re.compile(r"!dbg (!\d+)")

_WRONG = {  # an instruction, the rule that it breaks, and how
    re.compile(r"\b(?:double|x86_fp80|fp128)\b"): (Rule.DOUBLE, "computes with a double"),
    re.compile(r"= bitcast <\d+ x (?!i1>)\w+> \S+ to <"): (
        Rule.VECTOR,
        "casts a vector, which keeps its bits here but not on Metal",
    ),
    re.compile(r"\bcall [^@\n]*?%[\w.]+\("): (
        Rule.FUNCTION_POINTER,
        "calls a function through a pointer",
    ),
}

_SIMDGROUP = 32
_ELEMENT = {"float": 4, "half": 2}
_TYPE = re.compile(r'^(?P<name>%(?:"[^"]+"|[\w.]+)) = type \{(?P<body>.*)\}$', re.MULTILINE)
_LOCAL = re.compile(r" = alloca (?P<type>.+?), align \d+")
_NAME = re.compile(r'%(?:"[^"]+"|[\w.]+)')
_ARRAY = re.compile(r"\[(?P<count>\d+) x (?P<element>[^][]+)\]")


class _Nodes(dict[str, dict[str, str]]):
    """Of the debug information, the fields of each node that is asked for: most never are."""

    def __init__(self, written: Iterable[tuple[str, str]]) -> None:
        super().__init__()
        self._written = dict(written)

    def __missing__(self, name: str) -> dict[str, str]:
        self[name] = dict(_FIELD.findall(self._written.get(name, "")))
        return self[name]


class Program:
    """The intermediate representation of a kernel in the source file `file`."""

    def __init__(self, text: str, file: str) -> None:
        self._text = text
        self._file = file
        self._recursive = False

    def complaints(self) -> Iterator[Complaint]:
        """Yield the rules that the program breaks."""
        yield from self._of_functions()
        yield from self._of_recursion()
        yield from self._of_variables()
        yield from self._of_matrices()
        yield from self._of_indices()

    @cached_property
    def _nodes(self) -> _Nodes:
        return _Nodes(_NODE.findall(self._text))

    @cached_property
    def _functions(self) -> dict[str, re.Match[str]]:
        return {match["symbol"]: match for match in _FUNCTION.finditer(self._text)}

    @cached_property
    def _calls(self) -> dict[str, set[str]]:
        return {
            symbol: {called["symbol"] for called in _CALLED.finditer(function["body"])}
            for symbol, function in self._functions.items()
        }

    def _is_judged(self, node: dict[str, str]) -> bool:
        return self._nodes[node.get("file", "")].get("filename") == f'"{self._file}"'

    def _described(self, function: re.Match[str]) -> tuple[str, int]:
        node = self._nodes[function["node"]]
        return node["name"].strip('"'), int(node["line"])

    def _of_functions(self) -> Iterator[Complaint]:
        for function in self._functions.values():
            if not self._is_judged(self._nodes[function["node"]]):
                continue
            name, line = self._described(function)
            for instruction in function["body"].splitlines():
                for pattern, (rule, what) in _WRONG.items():
                    if pattern.search(instruction):
                        at = _PLACE.search(instruction)
                        where = int(self._nodes[at[1]].get("line", line)) if at else line
                        yield Complaint(rule, where, f"'{name}' {what}")
        for symbol in _DECLARED.findall(self._text):
            yield Complaint(Rule.UNDEFINED, 0, f"'{symbol}' has no body")

    def _of_recursion(self) -> Iterator[Complaint]:
        calls = self._calls
        reached: dict[str, set[str]] = defaultdict(set)
        for symbol in calls:
            ahead = [symbol]
            while ahead:
                new = calls.get(ahead.pop(), set()) - reached[symbol]
                reached[symbol] |= new
                ahead.extend(new)
            if symbol in reached[symbol]:
                self._recursive = True
                name, line = self._described(self._functions[symbol])
                yield Complaint(Rule.RECURSION, line, f"'{name}' calls itself")

    def _of_matrices(self) -> Iterator[Complaint]:
        if self._recursive:
            return
        bodies = {
            symbol: function["body"]
            for symbol, function in self._functions.items()
            if self._is_judged(self._nodes[function["node"]])
        }
        used = lane_bytes(self._text, bodies, self._calls)
        if used > LANE_BYTES:
            yield Complaint(Rule.REGISTERS, 0, f"a lane's matrices take {used} bytes")

    def _of_indices(self) -> Iterator[Complaint]:
        matrices, nodes = matrix_types(self._text), dict(_NODE.findall(self._text))
        for function in self._functions.values():
            if not self._is_judged(self._nodes[function["node"]]):
                continue
            name, line = self._described(function)
            found = {
                Rule.UNROLLED: run_time_indices(function["body"], matrices, nodes),
                Rule.THREAD_ARRAY: run_time_indices_of_arrays(function["body"], nodes),
            }
            for rule, indices in found.items():
                for _, place in indices:
                    where = int(self._nodes[place].get("line", line))
                    yield Complaint(rule, where, f"'{name}' has an index that is no constant")

    def _of_variables(self) -> Iterator[Complaint]:
        used: dict[str, int] = defaultdict(int)  # by kernel
        for match in _GLOBAL.finditer(self._text):
            node = self._nodes[match["node"]]
            node = self._nodes[node["var"]] if "var" in node else node
            if "name" not in node or not self._is_judged(node):
                continue
            name, line = node["name"].strip('"'), int(node["line"])
            scope = self._nodes[node["scope"]]
            if _THREADGROUP not in match["kind"]:
                if _CONSTANT not in match["kind"]:
                    yield Complaint(Rule.PROGRAM_SCOPE, line, f"'{name}' is not in `constant`")
            elif "linkageName" in scope:
                used[node["scope"]] += self._bytes(node["type"])
            else:
                yield Complaint(Rule.THREADGROUP, line, f"'{name}' is outside every function")
        for most in filter(lambda each: each > THREADGROUP_BYTES, used.values()):
            over = f"threadgroup variables take {most} bytes"
            yield Complaint(Rule.THREADGROUP_SIZE, 0, over)

    def _bytes(self, node: str) -> int:
        fields = self._nodes[node]
        while "size" not in fields:  # a name for a type
            fields = self._nodes[fields["baseType"]]
        return int(fields["size"]) // 8


def lane_bytes(program: str, bodies: Mapping[str, str], calls: Mapping[str, set[str]]) -> int:
    """The most bytes of simdgroup matrices per lane of any function and its callees at one time.

    A matrix of 64 elements is distributed over 32 lanes. The compiler keeps the matrices that are
    variables at the same time in registers, or has to spill them. `bodies` are the instructions of
    each function of `program` that counts, `calls` whom each calls; none calls itself.
    """
    types = {match["name"]: match["body"] for match in _TYPE.finditer(program)}

    @cache
    def of_type(written: str) -> int:
        while array := _ARRAY.search(written):
            held = int(array["count"]) * of_type(array["element"])
            written = f"{written[: array.start()]}#{held}#{written[array.end() :]}"
        held = sum(map(int, re.findall(r"#(\d+)#", written)))
        for name in _NAME.findall(written):
            if "simdgroup_matrix" in name:
                element = re.search(r"<64 x (\w+)>", types[name])
                held += 64 // _SIMDGROUP * (_ELEMENT[element[1]] if element else 2)
            else:
                held += of_type(types.get(name, ""))
        return held

    @cache
    def of_function(symbol: str) -> int:
        body = bodies.get(symbol, "")
        own = sum(of_type(match["type"]) for match in _LOCAL.finditer(body))
        return own + max(map(of_function, calls.get(symbol, ())), default=0)

    return max(map(of_function, bodies), default=0)
