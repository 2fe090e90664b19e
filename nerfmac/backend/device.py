"""Which device computes, and so which back end runs the kernels.

MLX's default device is the one piece of state: kernels follow it. A GPU means Metal or CUDA,
whichever MLX was built with; the CPU means our own compiled kernels.
"""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import mlx.core as mx

from nerfmac import checks
from nerfmac.backend.cache import cache_folder

DEVICES = ("auto", "metal", "cuda", "cpu")

_pretended: str | None = None


def gpu() -> str | None:
    """`metal`, `cuda`, or None where MLX finds no GPU."""
    if mx.metal.is_available():
        return "metal"
    return "cuda" if mx.cuda.is_available() else None


def choose_device(name: str = "auto") -> str:
    """Make `name` MLX's default device; return which it is: `metal`, `cuda` or `cpu`.

    `auto` takes the GPU where there is one. Raises `InputError` for a device this machine, or this
    build of MLX, does not have.
    """
    checks.choice("device", name, DEVICES)
    chosen = (gpu() or "cpu") if name == "auto" else name
    if chosen != "cpu" and chosen != gpu():
        available = " and ".join(filter(None, (gpu(), "cpu")))
        raise checks.InputError(f"device is {name!r}; MLX finds only {available} on this machine")
    if chosen == "cuda":
        # A first training step compiles some eighty kernels, three minutes' work on an H200's host.
        # MLX keeps them in a temporary folder, which the next restart would empty.
        os.environ.setdefault("MLX_PTX_CACHE_DIR", str(cache_folder() / "ptx"))
    mx.set_default_device(mx.cpu if chosen == "cpu" else mx.gpu)
    return chosen


def current_device() -> str:
    """`metal`, `cuda` or `cpu`: where MLX computes by default at present."""
    if _pretended:
        return _pretended
    return (gpu() or "cpu") if mx.default_device().type == mx.DeviceType.gpu else "cpu"


@contextmanager
def pretended(name: str) -> Iterator[None]:
    """Within it `current_device` says `name`, whatever this machine has."""
    global _pretended
    before, _pretended = _pretended, name
    try:
        yield
    finally:
        _pretended = before


def device_name() -> str:
    """The product's name, such as `NVIDIA H200`."""
    if current_device() != "cpu":
        return str(mx.device_info()["device_name"])
    return processor_name()


def processor_name() -> str:
    """The processor's product name, as the operating system gives it."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    if platform.system() == "Darwin":
        command = ["sysctl", "-n", "machdep.cpu.brand_string"]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return platform.processor() or platform.machine()


def memory_bytes() -> int:
    """Memory that the current device can use, in bytes: the GPU's own, or the machine's."""
    if current_device() != "cpu":
        info = mx.device_info()  # of other keys on Metal than on CUDA
        for key in ("max_recommended_working_set_size", "total_memory", "memory_size"):
            if key in info:
                return int(info[key])
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def processors() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
