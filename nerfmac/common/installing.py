"""Commands that install packages here, and the reason why MLX is not there. Imports no package."""

from __future__ import annotations

import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, requires
from importlib.util import find_spec

OLDEST_MACOS = 14
"""First macOS for which MLX has packages."""


def pip_install(*requirements: str) -> str:
    """The command that installs `requirements` for this Python: uv's where there is no pip.

    An environment that uv has made has no pip, and `pip` would be another Python's.
    """
    tool = "pip install" if find_spec("pip") else f"uv pip install --python {sys.executable}"
    return " ".join([tool, *(f'"{requirement}"' for requirement in requirements)])


def extra_packages(extra: str) -> list[str]:
    """The requirements of an extra of nerfmac, such as `trimesh>=4.6`.

    Empty if nerfmac is not installed but only found by the path.
    """
    try:
        lines = [line.partition(";") for line in requires("nerfmac") or ()]
    except PackageNotFoundError:
        return []
    marked = f"extra == '{extra}'"
    return [name.strip() for name, _, marker in lines if marked in marker.replace('"', "'")]


def why_no_mlx(error: ImportError) -> str | None:
    """The reason why `import mlx.core` raised `error`, with the remedy; None if it is unknown."""
    if platform.system() == "Darwin":
        return _why_not_on_this_mac()
    # On Linux the package `mlx` holds no library; another one brings it, for the CPU or for CUDA.
    if "libmlx.so: cannot open" in str(error):
        return (
            f"MLX lacks its library, libmlx.so: {pip_install('mlx[cpu]')} brings it on Linux, or "
            f"{pip_install('mlx[cuda13]')} for an NVIDIA GPU"
        )
    if "libcuda.so.1: cannot open" in str(error):
        return (
            "MLX is installed for NVIDIA GPUs, but their driver, libcuda.so.1, is not; without "
            'such a GPU, make a new environment with "mlx[cpu]" in place of "mlx[cuda13]"'
        )
    return None


def _why_not_on_this_mac() -> str | None:
    if platform.machine() == "x86_64" and _is_translated():
        return (
            f"{sys.executable} is a program for Intel Macs, which runs here by Rosetta; MLX needs "
            "Apple silicon's own Python: make the environment with that of `uv python install "
            "3.13` or of python.org, in a Terminal that is not set to open with Rosetta"
        )
    if platform.machine() == "x86_64":
        return "nerfmac needs a Mac with Apple silicon; MLX does not run on Intel Macs"
    version = platform.mac_ver()[0]
    if version and int(version.partition(".")[0]) < OLDEST_MACOS:
        return f"MLX needs macOS {OLDEST_MACOS} or newer, and this is {version}: update macOS"
    return None


def _is_translated() -> bool:
    """Whether this process is an Intel program that Rosetta runs on Apple silicon."""
    command = ["sysctl", "-in", "sysctl.proc_translated"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return False
    return done.stdout.strip() == "1"
