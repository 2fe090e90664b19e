"""Description of the device and software used for a measurement, as JSON values."""

import os
import platform
from importlib.metadata import version
from pathlib import Path

from nerfmac.backend import backend, current_device, device_name
from nerfmac.version import version as nerfmac_version

_SETTINGS = ("MTL_", "METAL_")  # prefixes of the environment variables that Metal reads


def machine() -> dict[str, str]:
    """Return the current device, its back end, and the software versions from `software`."""
    return {
        "device": current_device(),
        "device_name": device_name(),
        "backend": backend(),
        **software(),
    }


def software() -> dict[str, str]:
    """Return the versions of nerfmac, MLX, and Python, the operating system, and the environment
    variables for Metal."""
    return {
        "nerfmac_version": nerfmac_version(),
        "mlx_version": version("mlx"),
        "python_version": platform.python_version(),
        "system": _system(),
        **{name: value for name, value in os.environ.items() if name.startswith(_SETTINGS)},
    }


def _system() -> str:
    """Return the operating system, such as `macOS 15.3 (Darwin 24.3.0, arm64)`."""
    name = platform.system()
    if mac := platform.mac_ver()[0]:
        name = f"macOS {mac}"
    elif Path("/etc/os-release").is_file():
        name = platform.freedesktop_os_release()["PRETTY_NAME"]
    return f"{name} ({platform.system()} {platform.release()}, {platform.machine()})"
