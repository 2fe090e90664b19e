"""The library that finds cameras: pycolmap, of the extra `capture`."""

from __future__ import annotations

from importlib.util import find_spec

from nerfmac.common.checks import InputError
from nerfmac.common.extras import install

INSTALL = install("capture")


def need_pycolmap() -> None:
    """Raise `InputError` unless pycolmap is installed; does not import it."""
    if find_spec("pycolmap") is None:
        raise InputError(f"pycolmap is not installed; finding where cameras stood needs: {INSTALL}")
