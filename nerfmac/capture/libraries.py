"""The libraries of the extra `capture`, imported when they are needed."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from nerfmac.checks import InputError
from nerfmac.extras import install

INSTALL = install("capture")


def need_pycolmap() -> None:
    """Raise `InputError` unless pycolmap is installed; does not import it."""
    if find_spec("pycolmap") is None:
        raise InputError(f"pycolmap is not installed; finding where cameras stood needs: {INSTALL}")


def read_heif() -> bool:
    """Let Pillow read HEIC files from now on; False if pillow-heif is not installed."""
    try:
        heif: Any = import_module("pillow_heif")
    except ModuleNotFoundError:
        return False
    heif.register_heif_opener()
    return True
