"""The extras of nerfmac's installation: packages that are imported when they are needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from nerfmac.common.checks import InputError


def install(extra: str) -> str:
    """What to type to install an extra."""
    return f'pip install "nerfmac[{extra}]", or in a checkout: pip install -e ".[{extra}]"'


def needed(module: str, extra: str, what: str) -> Any:
    """The `module` of a package of the `extra`.

    Raises `InputError` that says how to install it; `what` begins its second half, as in "snapshots
    need".
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise InputError(f"{error.name} is not installed; {what}: {install(extra)}") from error
