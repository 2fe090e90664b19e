"""What a figure or a finding was made on, as JSON values: the device and the software."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path

import mlx.core as mx

from nerfmac.backend import backend, current_device, device_name
from nerfmac.version import __version__

_SETTINGS = ("MTL_", "METAL_")  # variables that switch on Metal's own checks


def machine() -> dict[str, str]:
    """What computes at present, and the `software`."""
    return {
        "device": current_device(),
        "device_name": device_name(),
        "backend": backend(),
        **software(),
    }


def software() -> dict[str, str]:
    """What runs here: versions, the operating system, and what is set for Metal."""
    return {
        "nerfmac_version": __version__,
        "mlx_version": version("mlx"),
        "python_version": platform.python_version(),
        "system": _system(),
        **{name: value for name, value in os.environ.items() if name.startswith(_SETTINGS)},
    }


def peak_memory_bytes() -> int:
    """The most memory in use so far: the GPU's as MLX counts it, or this process' on a CPU."""
    if current_device() != "cpu":
        return int(mx.get_peak_memory())
    import resource  # here, for Windows has none, and is to be refused in one sentence

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _system() -> str:
    """Such as `macOS 15.3 (Darwin 24.3.0, arm64)`."""
    name = platform.system()
    if mac := platform.mac_ver()[0]:
        name = f"macOS {mac}"
    elif Path("/etc/os-release").is_file():
        name = platform.freedesktop_os_release()["PRETTY_NAME"]
    return f"{name} ({platform.system()} {platform.release()}, {platform.machine()})"
