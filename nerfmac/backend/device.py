"""Which device computes, and therefore which back end runs the kernels.

MLX's default device decides, and there is no other state. On a GPU, kernels run as Metal or CUDA,
whichever MLX was built with. On the CPU, kernels run as compiled C++.
"""

from __future__ import annotations

import logging
import os
import platform
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import mlx.core as mx

from nerfmac.backend.cache import cache_folder
from nerfmac.backend.host_memory import host_memory_bytes
from nerfmac.common import checks

log = logging.getLogger("nerfmac")

DEVICES = ("auto", "metal", "cuda", "cpu")

_CPUINFO = Path("/proc/cpuinfo")

_pretended: str | None = None
_took_cpu = False  # whether `choose_device`, and not the user, made the CPU MLX's default


def gpu() -> str | None:
    """`metal`, `cuda`, or None where MLX finds no GPU."""
    if mx.metal.is_available():
        return "metal"
    return "cuda" if mx.cuda.is_available() else None


def choose_device(name: str = "auto") -> str:
    """Make `name` MLX's default device; return its name: `metal`, `cuda` or `cpu`.

    `auto` takes the GPU if there is one, unless the user has made the CPU MLX's default by
    `mx.set_default_device`. Raises `InputError` for a device that this machine, or this build of
    MLX, does not have.
    """
    global _took_cpu
    refuse_windows()
    checks.choice("device", name, DEVICES)
    chosen, why = _automatic() if name == "auto" else (name, "as was asked for")
    if chosen != "cpu" and chosen != gpu():
        available = " and ".join(filter(None, (gpu(), "cpu")))
        raise checks.InputError(f"device is {name!r}; MLX finds only {available} on this machine")
    if chosen == "cuda":
        # By default MLX keeps the kernels that it compiles in a temporary folder, which a restart
        # empties.
        os.environ.setdefault("MLX_PTX_CACHE_DIR", str(cache_folder() / "ptx"))
    log.debug("device %s, %s", chosen, why)
    wanted = mx.cpu if chosen == "cpu" else mx.gpu
    if mx.default_device().type != wanted:
        mx.set_default_device(wanted)
        _took_cpu = chosen == "cpu"
    return chosen


def _automatic() -> tuple[str, str]:
    """The device that `auto` takes, and why."""
    found = gpu()
    if found is None:
        return "cpu", "as MLX finds no GPU"
    # MLX's default is the GPU if there is one. If it is the CPU now, somebody chose that.
    if mx.default_device().type == mx.cpu and not _took_cpu:
        return "cpu", "as it was made MLX's default device"
    return found, "the GPU that MLX finds"


def refuse_windows() -> None:
    """Raise `InputError` on Windows."""
    if platform.system() == "Windows":
        raise checks.InputError("nerfmac runs on macOS and Linux, not on Windows")


def current_device() -> str:
    """MLX's default device now: `metal`, `cuda` or `cpu`."""
    if _pretended:
        return _pretended
    refuse_windows()
    return (gpu() or "cpu") if mx.default_device().type == mx.gpu else "cpu"


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
    """The current device's product name, such as `NVIDIA H200`."""
    if current_device() != "cpu":
        return str(mx.device_info()["device_name"])
    return processor_name()


def compute_capability() -> tuple[int, int] | None:
    """The NVIDIA GPU's compute capability, such as (9, 0); None on other devices."""
    info = mx.device_info()
    if "compute_capability_major" not in info:
        return None
    return int(info["compute_capability_major"]), int(info["compute_capability_minor"])


def processor_name() -> str:
    """The processor's product name, as the operating system gives it."""
    named = _of_processor("model name")
    if platform.system() == "Darwin":
        named = _sysctl("-n", "machdep.cpu.brand_string")
    return named or platform.processor() or platform.machine()


def processor_features() -> str:
    """The processor's instruction sets, as the operating system lists them.

    The product's name is not enough: virtual machines of one name may have different ones.
    """
    if platform.system() == "Darwin":
        return _sysctl("hw.optional", "machdep.cpu.features")  # on Apple silicon, and on Intel
    return _of_processor("flags") or _of_processor("Features")  # on x86 and on ARM


def _of_processor(key: str) -> str:
    """The value of `key` for the first processor that Linux describes; empty if there is none."""
    if _CPUINFO.is_file():
        for line in _CPUINFO.read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == key:
                return value.strip()
    return ""


def _sysctl(*words: str) -> str:
    command = ["sysctl", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def memory_bytes() -> int:
    """Memory that the current device can use, in bytes: the GPU's own, or that of this process."""
    if current_device() != "cpu":
        info = mx.device_info()  # the keys differ between Metal and CUDA
        for key in ("max_recommended_working_set_size", "total_memory", "memory_size"):
            if key in info:
                return int(info[key])
    return host_memory_bytes()


def processors() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
