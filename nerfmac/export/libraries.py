"""The libraries of the extra `export`, imported when they are needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from nerfmac.checks import InputError

INSTALL = 'pip install "nerfmac[export]", or in a checkout: pip install -e ".[export]"'


def need_libraries() -> None:
    """Raise `InputError` if one of the libraries is not installed."""
    for module in ("skimage.measure", "trimesh"):
        needed(module)


def needed(module: str) -> Any:
    """The `module` of a library of the extra. Raises `InputError` that says how to install it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise InputError(
            f"{error.name} is not installed; meshes and points need: {INSTALL}"
        ) from error
