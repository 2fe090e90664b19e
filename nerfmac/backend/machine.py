"""What a figure or a finding was made on, as JSON values: the device and the software."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path

import mlx.core as mx

from nerfmac.backend import backend, current_device, device_name
from nerfmac.version import __version__

_SETTINGS = ("MTL_", "METAL_")  # variables that switch on Metal's own checks


def machine() -> dict[str, str]:
    """The current device and its back end, and the `software`."""
    return {
        "device": current_device(),
        "device_name": device_name(),
        "backend": backend(),
        **software(),
    }


def software() -> dict[str, str]:
    """Versions of the software, the operating system, and Metal's environment variables."""
    return {
        "nerfmac_version": __version__,
        **({"nerfmac_commit": commit} if (commit := _commit()) else {}),
        "mlx_version": version("mlx"),
        "python_version": platform.python_version(),
        "system": _system(),
        **{name: value for name, value in os.environ.items() if name.startswith(_SETTINGS)},
    }


def peak_memory_bytes() -> int:
    """Peak memory in bytes: the GPU's as MLX counts it, or on a CPU this process's."""
    if current_device() != "cpu":
        return int(mx.get_peak_memory())
    import resource  # here: Windows lacks it, and is refused by a clear message

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


@cache
def _commit() -> str | None:
    """The commit of the checkout that is installed, with `-dirty` if files differ from it."""
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return None
    describe = ("git", "-C", str(root), "describe", "--always", "--dirty", "--exclude=*")
    try:
        return subprocess.run(describe, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def _system() -> str:
    """The operating system, such as `macOS 15.3 (Darwin 24.3.0, arm64)`."""
    name = platform.system()
    if mac := platform.mac_ver()[0]:
        name = f"macOS {mac}"
    elif Path("/etc/os-release").is_file():
        name = platform.freedesktop_os_release()["PRETTY_NAME"]
    return f"{name} ({platform.system()} {platform.release()}, {platform.machine()})"
