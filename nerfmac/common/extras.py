"""Optional packages, which nerfmac's extras install; they are imported where they are used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from nerfmac.common.checks import InputError
from nerfmac.common.installing import install


def needed(module: str, extra: str, what: str) -> Any:
    """Import `module`, which a package of the `extra` provides, and return it.

    If it is missing, raises `InputError` with `what`, such as "snapshots need", and the command
    that installs it.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise InputError(
            f"{error.name} is not installed; {what} the extra {extra}: {install(extra)}"
        ) from error
