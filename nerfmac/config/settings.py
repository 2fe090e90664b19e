"""`Settings`, the base class of groups of settings, and marks for the annotations of their fields:
`Range`, the allowed values of a number, and `Written`, the form of an option on the command line.
"""

from collections.abc import Callable
from functools import cache
from math import inf
from types import NoneType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from nerfmac.common import InputError, checks


class Range(NamedTuple):
    """Smallest and largest allowed value of a number, for the annotation of a setting, such as
    `levels: Annotated[int, Range(2, 32)] = 16`."""

    low: float = -inf
    high: float = inf


class Written(NamedTuple):
    """Name of a value in help pages, and a function that converts the text of the value. By
    default, the text is converted to the type of the field."""

    name: str
    parse: Callable[[str], Any] | None = None


class Settings:
    """Base class of dataclasses whose values must match the annotations of the fields."""

    _prefix = ""  # Prefix of the names of settings in error messages, such as "grid.".

    def __post_init__(self) -> None:
        """Raise `InputError` if a setting has a wrong type or is outside its `Range`."""
        settings: type = type(self)
        for name, hint in _hints(settings).items():
            _check(f"{self._prefix}{name}", getattr(self, name), hint)


Value = TypeVar("Value")


def known(name: str, value: Value | None) -> Value:
    """Return the value of a setting, and raise `InputError` if the setting is automatic."""
    if value is None:
        raise InputError(f"{name} is automatic; expected a value, for example from resolve")
    return value


@cache
def _hints(settings: type) -> dict[str, Any]:
    return get_type_hints(settings, include_extras=True)


def _check(name: str, value: Any, hint: Any) -> None:
    kind, *marks = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    allowed = next((mark for mark in marks if isinstance(mark, Range)), Range())
    if NoneType in get_args(kind):
        if value is None:
            return
        kind, *others = (other for other in get_args(kind) if other is not NoneType)
        if others:  # A field with several types is checked by its class.
            return
    if kind is bool:
        checks.flag(name, value)
    elif kind in (int, float):
        checks.number(name, value, low=allowed.low, high=allowed.high, whole=kind is int)
    elif get_origin(kind) is Literal:
        checks.choice(name, value, get_args(kind))
