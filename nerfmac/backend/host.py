"""Properties of the host: its processor, and the cache folder for compiled kernels and variants."""

import os
import platform
import subprocess
from pathlib import Path

from nerfmac.common import InputError, user_path

CACHE_ADVICE = "set NERFMAC_CACHE to another folder"
"""Advice in error messages about a cache folder that cannot be written."""

_CPUINFO = Path("/proc/cpuinfo")


def cache_folder() -> Path:
    """Return the cache folder: `$NERFMAC_CACHE` if this variable is set, otherwise a folder in the
    user's cache folder."""
    if folder := os.environ.get("NERFMAC_CACHE"):
        return user_path(folder)
    try:
        if platform.system() == "Darwin":
            return Path.home() / "Library" / "Caches" / "nerfmac"
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nerfmac"
    except RuntimeError as error:
        raise InputError(
            "cannot cache compiled kernels without a home folder; set NERFMAC_CACHE to a folder"
        ) from error


def processors() -> int:
    """Return the number of logical processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def processor_name() -> str:
    """Return the product name of the processor."""
    name = _cpuinfo("model name")
    if platform.system() == "Darwin":
        name = _sysctl("-n", "machdep.cpu.brand_string")
    return name or platform.processor() or platform.machine()


def processor_features() -> str:
    """Return the instruction sets of the processor, as reported by the operating system.

    Virtual machines with the same processor name may support different instruction sets.
    """
    if platform.system() == "Darwin":
        return _sysctl("hw.optional", "machdep.cpu.features")  # on Apple silicon, and on Intel
    return _cpuinfo("flags") or _cpuinfo("Features")  # on x86 and on ARM


def _cpuinfo(key: str) -> str:
    """Return the value of `key` for the first processor in /proc/cpuinfo, or an empty string."""
    if _CPUINFO.is_file():
        for line in _CPUINFO.read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == key:
                return value.strip()
    return ""


def _sysctl(*words: str) -> str:
    command = ["sysctl", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
