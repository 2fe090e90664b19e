"""Imports of optional packages on first use. nerfmac's extras install these packages."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from nerfmac.common.checks import InputError
from nerfmac.common.installing import install


def needed(module: str, extra: str, what: str) -> Any:
    """Import an optional module.

    Args:
        module: Module to import.
        extra: nerfmac extra that installs the module's package.
        what: Beginning of the error message, such as "snapshots need".

    Returns:
        The imported module.

    Raises:
        InputError: If the module is not installed. The message contains the command that installs
            it.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise InputError(
            f"{error.name} is not installed; {what} the extra {extra}: {install(extra)}"
        ) from error
