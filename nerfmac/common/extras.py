"""Imports of optional packages on first use. nerfmac's extras install these packages."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from nerfmac.common.checks import InputError
from nerfmac.common.installing import install


def needed(module: str, extra: str, what: str) -> Any:
    """Import an optional module, or raise `InputError` with the command that installs the
    `extra`.

    `what` is the beginning of the error message, such as "snapshots need".
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise InputError(
            f"{error.name} is not installed; {what} the extra {extra}: {install(extra)}"
        ) from error
