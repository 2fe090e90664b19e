"""Device and software of the machine that a measurement was made on, as JSON values."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path

from nerfmac.backend import backend, current_device, device_name
from nerfmac.version import version as nerfmac_version

_SETTINGS = ("MTL_", "METAL_")  # prefixes of the environment variables that Metal reads


def machine() -> dict[str, str]:
    """The current device, its back end and `software()`."""
    return {
        "device": current_device(),
        "device_name": device_name(),
        "backend": backend(),
        **software(),
    }


def software() -> dict[str, str]:
    """Versions of nerfmac, MLX and Python, the operating system, Metal's environment variables."""
    return {
        "nerfmac_version": nerfmac_version(),
        "mlx_version": version("mlx"),
        "python_version": platform.python_version(),
        "system": _system(),
        **{name: value for name, value in os.environ.items() if name.startswith(_SETTINGS)},
    }


def _system() -> str:
    """The operating system, such as `macOS 15.3 (Darwin 24.3.0, arm64)`."""
    name = platform.system()
    if mac := platform.mac_ver()[0]:
        name = f"macOS {mac}"
    elif Path("/etc/os-release").is_file():
        name = platform.freedesktop_os_release()["PRETTY_NAME"]
    return f"{name} ({platform.system()} {platform.release()}, {platform.machine()})"
