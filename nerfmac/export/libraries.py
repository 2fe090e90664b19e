"""The libraries of the extra `export`, imported when they are needed."""

from __future__ import annotations

from typing import Any

from nerfmac.common import extras


def need_libraries() -> None:
    """Raise `InputError` if one of the libraries is not installed."""
    for module in ("skimage.measure", "trimesh"):
        needed(module)


def needed(module: str) -> Any:
    """The `module` of a library of the extra. Raises `InputError` that says how to install it."""
    return extras.needed(module, "export", "meshes and points need")
