"""`nerfmac info`, which does not import the measuring code, so that it starts quickly."""

import platform
from importlib.metadata import version

from nerfmac.app.cli.options import Info
from nerfmac.app.scenes.cache import image_cache_folder
from nerfmac.backend import choose_device, current_device, device_name, memory_bytes, why_reference
from nerfmac.backend.build import BuildError, compiler
from nerfmac.backend.host import cache_folder, processors
from nerfmac.backend.sources import kernels_folder, operations
from nerfmac.backend.variants import VARIANTS, from_environment, variants_here
from nerfmac.config.presets import preset
from nerfmac.ranks import Ranks, join
from nerfmac.training.resolve import for_pace
from nerfmac.version import version as nerfmac_version


def info(arguments: Info) -> int:
    """Run `nerfmac info` and return the exit code."""
    choose_device(arguments.device)
    ranks = join()
    lines = _ranks(ranks)
    config = for_pace(preset("auto", current_device(), memory_bytes()))
    if not ranks.is_first:
        return 0
    rows = {
        "nerfmac": nerfmac_version(),
        "mlx": version("mlx"),
        "device": f"{current_device()}: {device_name()}",
        "memory": f"{memory_bytes() / 2**30:.1f} GiB",
        "cores": str(processors()),
        "C++ compiler": _compiler(),
        "kernels": str(kernels_folder()),
        "kernel cache": str(cache_folder()),
        "image cache": str(image_cache_folder()),
        "preset auto": config.preset,
    }
    for name, value in rows.items():
        print(f"{name:14}{value}")
    if ranks.size > 1:
        print(f"ranks ({ranks.backend})")
        print("\n".join(lines))
    print("operations")
    for name in operations():
        print(f"  {name:24}{_operation(name)}")
    print(f"variants{' of NERFMAC_VARIANTS' if from_environment() else ''}")
    for name, chosen in variants_here().items():
        others = ", ".join(way for way in VARIANTS[name].here if way != chosen)
        print(f"  {name:24}{chosen}{others and f' (others: {others})'}")
    return 0


def _ranks(ranks: Ranks) -> list[str]:
    """Return a line about the device of each rank. Every rank must call this function."""
    device = f"{device_name()}, {memory_bytes() / 2**30:.1f} GiB, on {platform.node()}"
    return [f"  {rank:<22}{text}" for rank, text in enumerate(ranks.texts(device))]


def _compiler() -> str:
    try:
        return compiler()
    except BuildError as error:
        return f"none ({error})"


def _operation(name: str) -> str:
    if why := why_reference(name, builds=False):
        return f"reference ({why.splitlines()[0]})"
    device = current_device()
    return f"{device} kernel{', built on first use' if device == 'cpu' else ''}"
