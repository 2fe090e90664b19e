"""`nerfmac info`: the device, its back ends and variants, and the caches."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from importlib.metadata import version

import tyro

from nerfmac.backend import choose_device, current_device, device_name, memory_bytes
from nerfmac.backend.build import BuildError, compiler_version
from nerfmac.backend.cache import cache_folder
from nerfmac.backend.device import processors
from nerfmac.backend.fallback import why_reference
from nerfmac.backend.sources import kernels_folder, operations
from nerfmac.backend.variants import VARIANTS, from_environment, is_tuned, variants_here
from nerfmac.cli.choices import Device
from nerfmac.config.presets import preset
from nerfmac.ranks import Ranks, join
from nerfmac.scenes import picture_cache
from nerfmac.version import __version__


@dataclass(frozen=True)
class Arguments:
    """Show the device, the back end of every operation, and the cache folders."""

    device: Device = "auto"
    """Device to show."""


def main(argv: list[str]) -> int:
    """Print all about the device; return the exit code."""
    arguments = tyro.cli(Arguments, prog="nerfmac info", args=argv)
    choose_device(arguments.device)
    ranks = join()
    lines = _ranks(ranks)
    if not ranks.is_first:
        return 0
    rows = {
        "nerfmac": __version__,
        "mlx": version("mlx"),
        "device": f"{current_device()}: {device_name()}",
        "memory": f"{memory_bytes() / 2**30:.1f} GiB",
        "cores": str(processors()),
        "C++ compiler": _compiler(),
        "kernels": str(kernels_folder()),
        "kernel cache": str(cache_folder()),
        "picture cache": str(picture_cache.folder()),
        "preset auto": preset("auto", current_device(), memory_bytes()).preset,
    }
    for name, value in rows.items():
        print(f"{name:14}{value}")
    if ranks.size > 1:
        print(f"ranks, by {ranks.backend}")
        print("\n".join(lines))
    print("operations")
    for name in operations():
        print(f"  {name:24}{_operation(name)}")
    print(f"variants ({_origin()})")
    for name, chosen in variants_here().items():
        others = ", ".join(other for other in VARIANTS[name].here if other != chosen)
        print(f"  {name:24}{chosen}{others and f' (of {chosen}, {others})'}")
    return 0


def _ranks(ranks: Ranks) -> list[str]:
    """A line about each rank, made by that rank."""
    own = f"{device_name()}, {memory_bytes() / 2**30:.1f} GiB, on {platform.node()}"
    return [f"  {rank:<22}{line}" for rank, line in enumerate(ranks.texts(own))]


def _origin() -> str:
    """Where the choice of variants comes from."""
    kept = "`nerfmac tune`'s choice" if is_tuned() else "the first ones; `nerfmac tune` chooses"
    forced = from_environment()
    return f"{kept}; NERFMAC_VARIANTS goes before it" if forced else kept


def _compiler() -> str:
    try:
        return compiler_version()
    except BuildError as error:
        return f"none ({error})"


def _operation(name: str) -> str:
    if why := why_reference(name):
        return f"reference ({why.splitlines()[0]})"
    return f"{current_device()} kernel"
