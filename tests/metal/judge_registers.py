"""Bytes of simdgroup matrices per lane, read from the intermediate representation of a kernel.

A matrix of 64 elements is distributed over 32 lanes. Matrices count if they are variables of a
function and its callees at the same time: the compiler keeps them in registers or has to spill
them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

LANE_BYTES = 4096
"""Maximum matrix bytes per lane. A lane of an M1 has 512 bytes of registers, and the gradient of
preset base uses as many for sums alone. More than eight times that is considered a mistake."""

_SIMDGROUP = 32
_ELEMENT = {"float": 4, "half": 2}

_TYPE = re.compile(r'^(?P<name>%(?:"[^"]+"|[\w.]+)) = type \{(?P<body>.*)\}$', re.MULTILINE)
_LOCAL = re.compile(r" = alloca (?P<type>.+?), align \d+")
_NAME = re.compile(r'%(?:"[^"]+"|[\w.]+)')
_ARRAY = re.compile(r"\[(?P<count>\d+) x (?P<element>[^][]+)\]")


def lane_bytes(program: str, bodies: Mapping[str, str], calls: Mapping[str, set[str]]) -> int:
    """The most that any function and those it calls, one at a time, hold in matrices.

    `bodies` are the instructions of each function of `program` that counts, `calls` whom each
    calls; none calls itself.
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
