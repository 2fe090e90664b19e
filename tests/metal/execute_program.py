"""A kernel's exact text as a C++ program that runs one thread of it on this machine."""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

from tests.metal.judge_text import Source

_SIGNATURE = re.compile(r"\[\[kernel\]\] void (?P<name>\w+)\(\n(?P<parameters>.*?)\) \{", re.DOTALL)
_PARAMETER = re.compile(r"\s*(?P<type>.+?) (?P<name>\w+) \[\[(?P<attribute>\w+)(?:\(\d+\))?\]\]")
_INSTANCE = re.compile(r"^template \[\[host_name.* decltype\(\w+(<.*>)\)", re.MULTILINE)
_THREADGROUP = re.compile(
    r"static threadgroup (?P<type>[^;,]+?) (?P<name>\w+)(?P<sizes>(?:\[[^];]*\])*) = \{\};"
)


class Parameter(NamedTuple):
    """One parameter of a kernel, as its signature declares it."""

    type: str
    name: str
    attribute: str  # `buffer`, or what Metal passes

    def argument(self, buffer: int) -> str:
        """The argument of a call for this parameter; `buffer` is its number if it is a buffer."""
        if self.attribute == "buffer":
            cast = f"({self.type[:-1]}*)buffers[{buffer}]"
            return f"*{cast}" if self.type.endswith("&") else cast
        width = int(self.type[-1]) if self.type[-1].isdigit() else 1
        return f"{self.type}{{{', '.join(f'place.{self.attribute}[{i}]' for i in range(width))}}}"


def parameters(text: str) -> list[Parameter]:
    signature = _SIGNATURE.search(text)
    assert signature, "the text has no kernel"
    found = []
    for each in signature["parameters"].split(",\n"):
        declared = _PARAMETER.fullmatch(each)
        assert declared, f"{each!r} is no parameter that can be passed"
        found.append(Parameter(declared["type"], declared["name"], declared["attribute"]))
    return found


def program(text: str) -> str:
    """C++ for this machine: the kernel, and a function that runs one thread of it."""
    signature, instance = _SIGNATURE.search(text), _INSTANCE.search(text)
    assert signature, "the text has no kernel"
    numbered = enumerate(parameters(text))  # buffers come first
    arguments = ", ".join(parameter.argument(number) for number, parameter in numbered)
    name = signature["name"] + (instance[1] if instance else "")
    number = int(hashlib.sha256(name.encode()).hexdigest()[:8], 16)
    translated = _THREADGROUP.sub(_in_the_runtime, Source(text).cpp())
    assert "static threadgroup" not in translated, "declare one threadgroup variable at a time"
    return (
        f"{translated}\n"
        f"const unsigned kernel_number = {number};\n"
        'extern "C" void run_thread(void* const* buffers, const runtime::Place& place) {\n'
        f"  {name}({arguments});\n}}\n"
    )


def _in_the_runtime(declared: re.Match[str]) -> str:
    """Convert a threadgroup variable to a reference to memory of the runtime."""
    of_type, name, sizes = declared["type"], declared["name"], declared["sizes"]
    return (
        f"threadgroup {of_type} (&{name}){sizes} = *(threadgroup {of_type} (*){sizes})"
        f'runtime::threadgroup_memory("{name}", sizeof({of_type}{sizes}), sizeof({of_type}));'
    )
