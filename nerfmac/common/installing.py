"""Installation commands for error messages, and reasons why MLX is missing. This module does not
import any third-party package."""

import json
import platform
import subprocess
import sys
from importlib import import_module
from importlib.metadata import Distribution, PackageNotFoundError, requires
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Any

from nerfmac.common.checks import InputError

OLDEST_MACOS = 14  # Oldest major version of macOS for which MLX has packages.
MLX = (("cpu", ["mlx[cpu]"]), ("cuda", ["mlx[cuda13]"]))  # Extras with the library of MLX.


def pip_install(*requirements: str) -> str:
    """Return the command that installs `requirements` for this Python. The command uses `uv` if the
    environment contains no pip, and `python -m pip` if `pip` belongs to another Python."""
    tool = f"{sys.executable} -m pip install"
    if not find_spec("pip"):
        tool = f"uv pip install --python {sys.executable}"
    elif Path(which("pip") or "").parent == Path(sys.executable).parent:
        tool = "pip install"
    return " ".join([tool, *(f'"{requirement}"' for requirement in requirements)])


def install(extra: str) -> str:
    """Return the command that installs an extra's packages. If a later `uv sync` could remove the
    packages, the result includes a warning.

    The command does not install `nerfmac` itself, because another project may use that name on a
    package index.
    """
    packages = extra_packages(extra)
    if not packages:
        return f"{pip_install('.[' + extra + ']')} in nerfmac's folder"
    command = pip_install(*packages)
    if _is_editable() and not find_spec("pip"):
        command += f" (`uv sync` without --extra {extra} removes them again)"
    return command


def extra_packages(extra: str) -> list[str]:
    """Return the requirements of one of nerfmac's extras, such as `trimesh>=4.6`, or an empty list
    if nerfmac is imported from a folder without being installed."""
    try:
        lines = [line.partition(";") for line in requires("nerfmac") or ()]
    except PackageNotFoundError:
        return []
    marked = f"extra == '{extra}'"
    return [name.strip() for name, _, marker in lines if marked in marker.replace('"', "'")]


def needed(module: str, extra: str, what: str) -> Any:
    """Import an optional module, or raise `InputError` with the command that installs its extra.
    The message begins with `what`, such as "snapshots need"."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise InputError(
            f"{error.name} is not installed; {what} the extra {extra}: {install(extra)}"
        ) from error


def why_no_mlx(error: ImportError) -> str | None:
    """Return why `import mlx.core` raised `error` and how to fix it, or None if the cause is
    unknown."""
    if platform.system() == "Darwin":
        return _why_not_on_this_mac()
    # On Linux, the package `mlx` contains no library. A separate package for CPU or CUDA provides
    # it.
    if "libmlx.so: cannot open" in str(error):
        cpu, cuda = (pip_install(*extra_packages(extra) or packages) for extra, packages in MLX)
        return (
            "MLX lacks its library, libmlx.so. On Linux, install nerfmac's extra cpu or, for an "
            f"NVIDIA GPU, the extra cuda. For cpu: {cpu}; for cuda: {cuda}"
        )
    if "libcuda.so.1: cannot open" in str(error):
        return (
            "MLX is installed for NVIDIA GPUs, but their driver, libcuda.so.1, is missing; without "
            "such a GPU, create a new environment with the extra cpu instead of cuda"
        )
    return None


def _is_editable() -> bool:
    """Return whether nerfmac is installed in editable mode, so that it runs from a checkout."""
    try:
        text = Distribution.from_name("nerfmac").read_text("direct_url.json")
    except PackageNotFoundError:
        return False
    return bool(json.loads(text or "{}").get("dir_info", {}).get("editable"))


def _why_not_on_this_mac() -> str | None:
    if platform.machine() == "x86_64" and _is_translated():
        return (
            f"{sys.executable} is a Python for Intel Macs and runs here with Rosetta; MLX needs a "
            "Python for Apple silicon: create the environment with the Python from `uv python "
            "install 3.13` or python.org, in a Terminal that is not set to open with Rosetta"
        )
    if platform.machine() == "x86_64":
        return "nerfmac needs a Mac with Apple silicon; MLX does not run on Intel Macs"
    version = platform.mac_ver()[0]
    if version and int(version.partition(".")[0]) < OLDEST_MACOS:
        return f"MLX needs macOS {OLDEST_MACOS} or newer, but this is macOS {version}; update macOS"
    return None


def _is_translated() -> bool:
    """Return whether this process is an Intel program that Rosetta runs on Apple silicon."""
    command = ["sysctl", "-in", "sysctl.proc_translated"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return False
    return done.stdout.strip() == "1"
