"""Control of `mx.compile`: disable compilation, or disable kernel fusion on CUDA.

On CUDA, MLX compiles a fused kernel in three seconds, as 42 variants. Fusion is worthwhile for a
training step, which runs thousands of times, but not for a computation that runs rarely.
"""

import ctypes
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

import mlx.core as mx

from nerfmac.backend.device import current_device

log = logging.getLogger("nerfmac")

Function = TypeVar("Function", bound=Callable[..., Any])

_NO_FUSE, _ENABLED = 2, 3  # values of MLX's `CompileMode`, mlx/compile.h

_is_off = False


@contextmanager
def uncompiled() -> Iterator[None]:
    """Return a context manager that makes functions compiled with `mx.compile` run uncompiled."""
    global _is_off
    before, _is_off = _is_off, True
    mx.disable_compile()
    try:
        yield
    finally:
        _is_off = before
        if not before:
            mx.enable_compile()


@contextmanager
def unfused() -> Iterator[None]:
    """Return a context manager that disables kernel fusion of functions compiled on CUDA."""
    choose_mode = _compile_mode() if current_device() == "cuda" and not _is_off else _keep_mode
    choose_mode(_NO_FUSE)
    try:
        yield
    finally:
        choose_mode(_ENABLED)


def compiled_with_records(
    function: Callable[..., Any], on_trace: Callable[[], None] = lambda: None
) -> Callable[..., Any]:
    """Compile a function with `mx.compile` and preserve NamedTuples in its arguments and results.

    MLX converts NamedTuples to plain tuples, and the compiled function converts them back. All
    calls must use the same NamedTuple classes. `on_trace` is called whenever MLX traces the
    function.
    """
    taken: list[_Kind] = []
    returned: _Kind = None

    def of_tuples(*arguments: Any) -> Any:
        nonlocal returned
        on_trace()
        result = function(*map(_as_record, taken, arguments))
        returned = _kind(result)
        return result

    compiled = mx.compile(of_tuples)

    def run(*arguments: Any) -> Any:
        if not taken:  # computed once, because this function runs in every step
            taken.extend(map(_kind, arguments))
        result = compiled(*arguments)
        return _as_record(returned, result)

    return run


_Kind = tuple[type, list["_Kind"]] | None
"""Class of a NamedTuple and the kinds of its fields, or None for any other value."""


def _kind(value: Any) -> _Kind:
    return (type(value), list(map(_kind, value))) if hasattr(value, "_fields") else None


def _as_record(kind: _Kind, value: Any) -> Any:
    """Convert each tuple in `value` to the NamedTuple class in `kind`."""
    return value if kind is None else kind[0](*map(_as_record, kind[1], value))


def compile_seldom(function: Function) -> Function:
    """Compile a function that runs rarely. On CUDA, the kernels of the function are not fused."""
    compiled: Any = mx.compile(function)

    def run(*arguments: Any) -> Any:
        with unfused():
            return compiled(*arguments)

    return run  # type: ignore[return-value]


class Traces:
    """Compiles functions with `mx.compile` and counts how often MLX traces each of them.

    Tracing takes half as long as a training step. MLX traces a function again if the shapes,
    dtypes, or names of its inputs change. In nerfmac, these properties are constant for each
    compiled function. If a function is traced more than once, a warning is logged.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        """Number of traces, keyed by function name."""

    def compiled(self, function: Function, name: str) -> Function:
        """Compile `function` with `mx.compile` and count its traces under `name`."""
        return compiled_with_records(function, partial(self._count, name))  # type: ignore[return-value]

    def _count(self, name: str) -> None:
        if not _is_off:
            self.counts[name] += 1
            log.debug("tracing the %s", name)
            if (times := self.counts[name]) > 1:
                log.warning("an error in nerfmac: the %s is traced %d times", name, times)

    @property
    def needless(self) -> int:
        """Number of unnecessary traces: all except the first trace of each function."""
        return self.counts.total() - len(self.counts)


@cache
def _compile_mode() -> Callable[[int], object]:
    """Return MLX's C++ function `set_compile_mode`, which has no Python binding."""
    if "MLX_DISABLE_COMPILE" in os.environ:
        return _keep_mode
    library = Path(mx.__file__).with_name("lib") / "libmlx.so"
    try:
        choose = ctypes.CDLL(str(library))._ZN3mlx4core16set_compile_modeENS0_11CompileModeE
    except (OSError, AttributeError):
        return _keep_mode
    choose.argtypes, choose.restype = [ctypes.c_int], None
    return choose


def _keep_mode(_mode: int) -> None:
    """Do nothing. Used if MLX does not have the function `set_compile_mode`."""
