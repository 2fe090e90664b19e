"""Executes the exact source code that Metal would get on the CPU, and finds undefined behavior.

An `Executor` replaces the GPU (`nerfmac.backend.metal_text.on_metal`). It compiles the source code
of a launch with clang, against metal_stdlib.h, and runs it over exactly the grid that Metal would
launch, in a separate process (runtime_main.cpp). `ExecutionError` reports which rule of Metal was
broken. A record of every access finds races, unwritten memory, and indices out of bounds
(runtime_memory.cpp). Threads run as fibers to find barriers and collectives that cannot complete
(runtime.cpp). The sanitizers of clang find overflows and accesses beyond private arrays.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import subprocess
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, NamedTuple

import mlx.core as mx
import numpy as np

from nerfmac.backend.metal_text import Launch
from tests.metal.execute_program import Parameter, parameters, program
from tests.metal.judge import clang

_HERE = Path(__file__).parent
_SECONDS = 120  # for one launch

_RUNTIME = ("-std=c++20", "-O2", "-fno-omit-frame-pointer")
_LANGUAGE = (*("-std=c++14", "-DMETAL_RUNS"), "-ftrivial-auto-var-init=pattern")
_CODE = (
    "-O0",  # so that no access is optimized away before it is recorded
    "-g1",
    "-fsanitize=address,undefined,float-cast-overflow",
    # The record of accesses finds the errors that the last two would find.
    "-fno-sanitize=vptr,function,null,pointer-overflow",
    "-fno-sanitize-recover=all",
    # The runtime is called at each load and store; the C library may replace none.
    "-fsanitize-coverage=func,trace-loads,trace-stores",
    "-fno-builtin",
    "-fno-omit-frame-pointer",
    "-fPIC",
    "-w",  # what deserves a warning is judged elsewhere
    *(["-mfma"] if platform.machine() == "x86_64" else []),
)
# In a long kernel, variables without pointers to them are kept in registers: most loads and stores
# use such variables, and none of them is a memory access. Short kernels finish before that pays
# off.
_LONG = 20_000  # characters
_AS_WRITTEN = (
    *("-emit-llvm", "-c", "-Xclang", "-disable-llvm-passes"),
    *("-Xclang", "-disable-O0-optnone"),
)
_LIBRARY = (
    "-shared",
    "-nostdlib",  # it finds all it calls in the runtime that loads it
    *(f"-Wl,--wrap=__asan_{name}" for name in ("memcpy", "memmove", "memset")),
)

_ELEMENT = re.compile(r"(?:atomic<)?(\w+)>?[*&]$")
_REPORT = re.compile(
    r"(?:broken rule: |ERROR: AddressSanitizer: |runtime error: |(?=while thread ))(.*)"
)

_BYTES = {
    "bool": 1, "int8_t": 1, "uint8_t": 1, "int16_t": 2, "uint16_t": 2, "half": 2, "float16_t": 2,
    "int": 4, "int32_t": 4, "uint32_t": 4, "float": 4, "int64_t": 8, "uint64_t": 8,
}  # fmt: skip
_NUMPY = {mx.float32: np.float32, mx.float16: np.float16, mx.int32: np.int32, mx.uint32: np.uint32}


class ExecutionError(RuntimeError):
    """Undefined behavior in a kernel, with the rule, the location, and the thread."""


class Buffer(NamedTuple):
    """One buffer of a launch."""

    name: str
    role: str  # as runtime_main.cpp names them
    bytes: int
    element: int  # bytes
    content: bytes = b""

    def __str__(self) -> str:
        return f"{self.name}:{self.role}:{self.bytes}:{self.element}"


class Executor:
    """Replacement for a Metal GPU; compiled programs are stored in `folder`.

    With `last`, only that many threadgroups at the end of the grid run. Results are then zeros, and
    inputs are zeros unless `given` contains their names, so arrays may be very large.

    The Metal compiler may add a product without rounding it first, in one kernel and not in
    another. Here, products are rounded only in the functions `rounded`. The `order` of the
    additions in a simdgroup sum is unspecified too: "lanes", from left to right, or "tree",
    neighbors first.
    """

    def __init__(
        self,
        folder: Path,
        last: int | None = None,
        given: Collection[str] = (),
        rounded: Collection[str] = ("march_count",),
        order: Literal["lanes", "tree"] = "lanes",
    ) -> None:
        self.folder = folder
        self.rounded = rounded
        self.order = order
        self.last = last
        self.given = given
        self.launches: list[Launch] = []
        # Of the latest launch: for each buffer the range of elements that holds all touched ones,
        # and for each output how many elements have no value.
        self.touched: dict[str, range] = {}
        self.unwritten: dict[str, int] = {}

    def __call__(self, launch: Launch, inputs: Sequence[mx.array]) -> list[mx.array]:
        """Run `launch`. Raises `ExecutionError`."""
        self.launches.append(launch)
        buffers = list(_buffers(launch, inputs, None if self.last is None else self.given))
        groups = prod(
            -(-grid // group) for grid, group in zip(launch.grid, launch.group, strict=True)
        )
        first = 0 if self.last is None else max(0, groups - self.last)
        assert prod(launch.group) <= 1024, "Metal has no threadgroups of so many threads"
        assert groups - first < 2**20 - 1, "more threadgroups than the record can tell apart"
        command = [self._runtime(), self._kernel(launch.text)]
        command += [*launch.grid, *launch.group, first, groups, self.order, *buffers]
        contents = b"".join(buffer.content for buffer in buffers)
        try:
            result = subprocess.run(
                list(map(str, command)), input=contents, capture_output=True, timeout=_SECONDS
            )
        except subprocess.TimeoutExpired as error:
            raise ExecutionError(f"{launch.specialization} runs on for {_SECONDS} s") from error
        if result.returncode != 0:
            report = result.stderr.decode(errors="replace")
            raise ExecutionError(f"{launch.specialization}: {_summary(report)}\n{report}")
        found = np.frombuffer(result.stdout[-24 * len(buffers) :], np.int64).reshape(-1, 3)
        self.touched, self.unwritten = {}, {}
        for buffer, (begin, end, unwritten) in zip(buffers, found.tolist(), strict=True):
            span = (begin // buffer.element, -(-end // buffer.element))
            self.touched[buffer.name] = range(*span) if end else range(0)
            if buffer.role != "input":
                self.unwritten[buffer.name] = unwritten
        if self.last is not None:
            return list(map(mx.zeros, launch.output_shapes, launch.output_dtypes))
        return list(_outputs(launch, result.stdout))

    def compile(self, texts: Iterable[str]) -> None:
        """Compile several kernels at once; what does not compile fails when it is launched."""
        self._runtime()
        self._header()
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            wait([pool.submit(self._kernel, text) for text in dict.fromkeys(texts)])

    def _kernel(self, text: str) -> Path:
        name, header = hashlib.sha256(text.encode()).hexdigest()[:20], self._header()
        contract = "-ffp-contract=on"
        if any(f" custom_kernel_nerfmac_{function}_" in text for function in self.rounded):
            contract = "-ffp-contract=off"
        read = [clang(), *_LANGUAGE, *_CODE, contract, "-include-pch", header, "-x", "c++", "-"]
        optimizer = Path(clang()).resolve().with_name("opt")
        if len(text) < _LONG or not optimizer.exists():
            commands = [[*read, *_LIBRARY]]
        else:
            commands = [
                [*read, *_AS_WRITTEN, "-o", "-"],
                [optimizer, "-passes=mem2reg", "-", "-o", "-"],
                [clang(), *_CODE, contract, "-x", "ir", "-", *_LIBRARY],
            ]
        return self._built(f"{name}{contract}.so", lambda: program(text), *commands)

    def _header(self) -> Path:
        """Return the compiled header of every kernel."""
        header = [*_LANGUAGE, *_CODE, "-x", "c++-header", _HERE / "metal_stdlib.h"]
        return self._built("metal_stdlib.pch", str, [clang(), *header])

    def _runtime(self) -> Path:
        built = self._built("runtime.o", _sources, [clang(), *_RUNTIME, "-c", "-x", "c++", "-"])
        sanitizers = ("-fsanitize=address,undefined", "-rdynamic")
        return self._built("runtime", str, [clang(), *sanitizers, built])

    def _built(self, name: str, text: Callable[[], str], *commands: Sequence[str | Path]) -> Path:
        """The output of the last of `commands`, built once; `text` is piped through all of them."""
        built = self.folder / name
        if not built.exists():
            with TemporaryDirectory(dir=self.folder) as scratch:
                partial = Path(scratch, name)
                given = text().encode()
                for command in (*commands[:-1], [*commands[-1], "-o", partial]):
                    given = _printed(command, given)
                partial.replace(built)
        return built


def _buffers(
    launch: Launch, inputs: Sequence[mx.array], given: Collection[str] | None
) -> Iterator[Buffer]:
    """The buffers in the kernel's order; only inputs named in `given` have contents, or all."""
    declared = [each for each in parameters(launch.text) if each.attribute == "buffer"]
    outputs = len(launch.output_shapes)
    left = iter(inputs)
    name, array = "", mx.array(0)
    for parameter in declared[:-outputs]:
        element = _element_bytes(parameter)
        of_input = parameter.name.removeprefix(name)
        if name and of_input in ("_shape", "_strides", "_ndim"):
            content = _about(array, of_input).tobytes()
        else:
            name, array = parameter.name, next(left)
            if given is not None and name not in given:
                yield Buffer(name, "vast_input", array.nbytes, element)
                continue
            content = np.array(array).tobytes()
        yield Buffer(parameter.name, "input", len(content), element, content)
    assert next(left, None) is None, "the kernel takes fewer inputs"
    role = ("" if given is None else "vast_") + ("zeroed" if launch.zeroed else "output")
    for parameter, shape, dtype in zip(
        declared[-outputs:], launch.output_shapes, launch.output_dtypes, strict=True
    ):
        yield Buffer(parameter.name, role, prod(shape) * dtype.size, _element_bytes(parameter))


def _sources() -> str:
    """The runtime's, in one piece: the headers of C++ take most of the time."""
    return "".join(f'#include "{each}"\n' for each in sorted(_HERE.glob("runtime*.cpp")))


def _about(array: mx.array, what: str) -> np.ndarray:
    if what == "_shape":
        return np.array(array.shape, np.int32)
    if what == "_ndim":
        return np.array(array.ndim, np.int32)
    steps = np.cumprod([1, *reversed(array.shape[1:])])  # MLX makes inputs contiguous
    return steps[::-1].astype(np.int64)


def _element_bytes(parameter: Parameter) -> int:
    match = _ELEMENT.search(parameter.type)
    assert match, f"{parameter.type} is no buffer"
    return _BYTES[match[1]]


def _outputs(launch: Launch, contents: bytes) -> Iterator[mx.array]:
    start = 0
    for shape, dtype in zip(launch.output_shapes, launch.output_dtypes, strict=True):
        values = np.frombuffer(contents, _NUMPY[dtype], prod(shape), start)
        start += values.nbytes
        yield mx.array(values.reshape(shape))


def _summary(report: str) -> str:
    """What broke, and where clang's sanitizers found it, the thread."""
    return ", ".join(match[1] for match in _REPORT.finditer(report)) or "the process ended early"


def _printed(command: Sequence[str | Path], given: bytes) -> bytes:
    result = subprocess.run(list(map(str, command)), input=given, capture_output=True, check=False)
    if result.returncode != 0:
        said = result.stderr.decode(errors="replace")
        raise ExecutionError(f"clang refuses it:\n{said}{' '.join(map(str, command))}")
    return result.stdout
