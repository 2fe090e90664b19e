"""How many bytes of its simdgroup matrices a lane holds, read from a kernel's representation.

A matrix of 64 elements is spread over 32 lanes. Those count that the variables of a function and of
the functions that it calls hold at once: what a compiler keeps in registers, or has to spill.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

LANE_BYTES = 4096
"""Most bytes of matrices a lane. An M1's lane has 512 bytes of registers: preset base's gradient
holds as many in sums alone. What is beyond eight times that has been written by mistake."""

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
