"""The exact Metal text of every reachable specialisation, as files that people and tools can read.

They are made on any machine: nothing is compiled or launched.
"""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path

from nerfmac.backend.metal_text import Launch
from nerfmac.files import appearing, check_free, make_folder
from nerfmac.measure.selftest.specialisations import specialisations
from nerfmac.version import __version__

_BUFFER = re.compile(r"^\s*(?P<type>\S.*?) (?P<name>\w+) \[\[buffer\((?P<index>\d+)\)\]\]", re.M)


def write_metal(folder: Path) -> list[Path]:
    """Write `<specialisation>.metal` for each into `folder`, which is new or empty.

    Otherwise raises `InputError`, before anything is written.
    """
    check_free(folder)
    make_folder(folder)
    paths = []
    for name, launch in specialisations().items():
        path = folder / f"{name}.metal"
        with appearing(path) as partial:
            partial.write_text(f"{heading(launch)}\n{launch.text}", encoding="utf-8")
        paths.append(path)
    return paths


def heading(launch: Launch) -> str:
    """The comment at the top of a file, which describes its text."""
    shapes = ", ".join(str(shape) for shape in launch.output_shapes)
    lines = [
        f"{launch.name}, of nerfmac {__version__}",
        f"as MLX {version('mlx')} gives it to Metal's compiler, after MLX's own header",
        f"an example of its launch: {_by(launch.grid)} threads in groups of {_by(launch.group)}",
        f"outputs of shapes {shapes}" + (", which start from zero" if launch.zeroed else ""),
        *(f"buffer {b['index']}: {b['type']} {b['name']}" for b in _BUFFER.finditer(launch.text)),
    ]
    return "\n".join(f"// {line}" for line in lines)


def _by(size: tuple[int, int, int]) -> str:
    return " x ".join(map(str, size))
