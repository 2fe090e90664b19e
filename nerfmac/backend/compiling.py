"""How `mx.compile` compiles: not at all for a while, and on CUDA without fusing what runs seldom.

A fused kernel takes CUDA's compiler three seconds, for MLX has 42 variants made of each, and one
kernel waits for the other. That pays for a step, which runs a thousand times a second. What runs
seldom is ready sooner with the kernels that MLX brings along, and no slower to speak of.
"""

from __future__ import annotations

import ctypes
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import mlx.core as mx

from nerfmac.backend.device import current_device

log = logging.getLogger("nerfmac")

Function = TypeVar("Function", bound=Callable[..., Any])

_NO_FUSE, _ENABLED = 2, 3  # of MLX's `CompileMode`, mlx/compile.h

_is_off = False


@contextmanager
def uncompiled() -> Iterator[None]:
    """Within it, functions that were compiled run as they were written."""
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
    """Within it, on CUDA, `mx.compile` does not fuse what it compiles for the first time."""
    choose_mode = _compile_mode() if current_device() == "cuda" and not _is_off else _keep_mode
    choose_mode(_NO_FUSE)
    try:
        yield
    finally:
        choose_mode(_ENABLED)


def compile_seldom(function: Function) -> Function:
    """`mx.compile` for a function that runs seldom: on CUDA without fusing."""
    compiled: Any = mx.compile(function)

    def run(*arguments: Any) -> Any:
        with unfused():
            return compiled(*arguments)

    return run  # type: ignore[return-value]


class Traces:
    """Compiles functions, and counts how often MLX traces each: once is enough.

    Tracing takes as long as half a step, and a function is traced again if its inputs' shapes,
    types or names change.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        """By the functions' names."""

    def compiled(self, function: Function, name: str) -> Function:
        """`mx.compile` of `function`, counted as `name`. A second trace is logged as a fault."""

        def traced(*arguments: Any) -> Any:
            if not _is_off:
                self.counts[name] += 1
                if self.counts[name] == 1:
                    log.debug("tracing the %s", name)
                else:
                    times = self.counts[name]
                    log.warning(
                        "the %s is traced for the %d. time, a fault of nerfmac", name, times
                    )
            return function(*arguments)

        return mx.compile(traced)  # type: ignore[return-value]

    @property
    def needless(self) -> int:
        """How many traces were not the first of their function."""
        return self.counts.total() - len(self.counts)


@cache
def _compile_mode() -> Callable[[int], object]:
    """MLX's `set_compile_mode`, which Python has no name for; without it modes stay."""
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
    """Leave MLX's compile mode as it is."""
