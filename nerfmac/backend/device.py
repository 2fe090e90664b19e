"""Selection of the compute device.

The compute device is always MLX's default device. The device determines the back end of the
kernels: Metal or CUDA on a GPU, depending on the MLX build, and compiled C++ on the CPU.
"""

import logging
import os
import platform
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import mlx.core as mx

from nerfmac.backend.host import cache_folder, processor_name
from nerfmac.common import checks, refuse_forked

log = logging.getLogger("nerfmac")

_ARCHITECTURE = re.compile(r"applegpu_g(\d+)")

DEVICES = ("auto", "metal", "cuda", "cpu")

_pretended: tuple[str, int | None] | None = None  # arguments of `pretended`


def gpu() -> str | None:
    """Return the type of the GPU that MLX finds: `metal`, `cuda`, or None."""
    if mx.metal.is_available():
        return "metal"
    return "cuda" if mx.cuda.is_available() else None


def choose_device(name: str = "auto") -> str:
    """Set the default device of MLX, which trains and renders.

    Args:
        name: `metal`, `cuda`, `cpu`, or `auto`. `auto` selects the GPU if the machine has one,
            unless the default device of MLX has been set to the CPU.

    Returns:
        The type of the device: `metal`, `cuda`, or `cpu`.

    Raises:
        InputError: If the machine does not have the device, or if it runs Windows.
    """
    refuse_windows()
    refuse_forked()
    checks.choice("device", name, DEVICES)
    available = gpu()
    chosen = name
    if name == "auto":
        # On a machine with a GPU, it is MLX's default device unless the CPU has been chosen.
        is_gpu = available is not None and mx.default_device().type != mx.cpu
        chosen = available if is_gpu and available else "cpu"
    if chosen not in ("cpu", available):
        listed = " and ".join(filter(None, (available, "cpu")))
        raise checks.InputError(
            f"device is {name!r}; MLX finds only {listed} on this machine, which auto selects"
        )
    if chosen == "cuda":
        # By default, MLX stores compiled kernels in a temporary folder that is deleted at a
        # restart.
        os.environ.setdefault("MLX_PTX_CACHE_DIR", str(cache_folder() / "ptx"))
    log.debug("device %s, selected with %r", chosen, name)
    wanted = mx.cpu if chosen == "cpu" else mx.gpu
    if mx.default_device().type != wanted:  # Otherwise, one of several GPUs may have been chosen.
        mx.set_default_device(wanted)
    if chosen == "cpu":
        find_compiler()
    return chosen


@cache
def find_compiler() -> None:
    """Make MLX search for g++, which it does once in a process, at the first compiled call.

    A Ctrl-C in a terminal or a notebook ends the search too, and MLX then runs all functions of the
    process uncompiled. Therefore, the search is done early, and Ctrl-C has no effect on it.
    """
    if threading.current_thread() is not threading.main_thread():  # The others set no handlers.
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        mx.compile(mx.abs)(mx.zeros(1))
    finally:
        signal.signal(signal.SIGINT, before)


def refuse_windows() -> None:
    """Raise `InputError` on Windows."""
    if platform.system() == "Windows":
        raise checks.InputError("nerfmac runs on macOS and Linux, not on Windows")


def current_device() -> str:
    """Return the type of MLX's default device: `metal`, `cuda`, or `cpu`."""
    if _pretended:
        return _pretended[0]
    refuse_windows()
    refuse_forked()
    return (gpu() or "cpu") if mx.default_device().type == mx.gpu else "cpu"


@contextmanager
def pretended(name: str, generation: int | None = None) -> Iterator[None]:
    """Return a context manager that makes `current_device` return `name`, for tests.

    `generation` is the generation of the simulated Apple GPU, or None for an unknown generation.
    """
    global _pretended
    before, _pretended = _pretended, (name, generation)
    try:
        yield
    finally:
        _pretended = before


def apple_generation() -> int | None:
    """Return the generation of the Apple GPU: 13 for M1, 14 for M2, 15 for M3, and so on.

    The result is None if the architecture, such as `applegpu_g13s`, is unknown.
    """
    if _pretended or current_device() != "metal":
        return _pretended[1] if _pretended else None
    match = _ARCHITECTURE.match(str(mx.device_info().get("architecture", "")))
    return int(match[1]) if match else None


def device_name() -> str:
    """Return the product name of the current device, such as `NVIDIA H200`."""
    if current_device() != "cpu":
        return str(mx.device_info()["device_name"])
    return processor_name()


def compute_capability() -> tuple[int, int] | None:
    """Return the compute capability of the NVIDIA GPU, such as (9, 0), or None on other devices."""
    info = mx.device_info()
    if "compute_capability_major" not in info:
        return None
    return int(info["compute_capability_major"]), int(info["compute_capability_minor"])
