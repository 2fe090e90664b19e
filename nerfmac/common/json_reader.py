"""Strict reading of JSON objects, key by key with `Fields`, or as a dataclass or named tuple with
`read_as`. Error messages contain the location of the wrong value."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from nerfmac.common.checks import LARGEST, InputError, prefix_errors
from nerfmac.common.files import read_json

ROW = 400  # Maximum length, in characters, of a row of numbers in an error message.
UNSAVED = {"saved": False}
"""Metadata of the fields of dataclasses that JSON files do not contain. They have defaults."""


@dataclass(frozen=True)
class Fields:
    """A JSON object and its location in a file.

    Every reading method raises `InputError` with the location, the key, the value, and the expected
    values, also for a missing key without a `default`.
    """

    values: Mapping[str, Any]
    where: str  # Location for error messages, such as "a/transforms.json, frame 3".

    @classmethod
    def of(cls, values: Any, where: str) -> Fields:
        """Create `Fields` from the JSON object `values`, located at `where`."""
        if not isinstance(values, dict):
            raise InputError(f"{where} is {_shown(values)}; expected an object")
        return cls(values, where)

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def wrong(self, key: str, expected: str) -> InputError:
        """Return an `InputError` about the value of `key` and the values that are `expected`."""
        shown = _shown(self.values[key]) if key in self.values else "missing"
        return InputError(f"{self.where}: {key} is {shown}; expected {expected}")

    def allow_only(self, *known: str) -> None:
        """Raise `InputError` if the object has a key that is not in `known`."""
        for key in self.values:
            if key not in known:
                expected = ", ".join(known)
                raise InputError(f"{self.where}: {key} is unknown; expected one of: {expected}")

    def is_null(self, key: str) -> bool:
        """Return whether the value of `key` is null."""
        return self._present(key) is None

    def number(self, key: str, default: float | None = None, *, above: float = -math.inf) -> float:
        """Return the value of `key`, a finite number greater than `above`."""
        expected = "a finite number" + (f" above {above:g}" if above > -math.inf else "")
        return float(self._read(key, default, expected, lambda v: _is_number(v) and v > above))

    def index(self, key: str) -> int:
        """Return the value of `key`, an integer of at least 0."""
        value = self.like(key, 0)
        if value < 0:
            raise self.wrong(key, "0 or more")
        return int(value)

    def count(self, key: str, default: int | None = None) -> int:
        """Return the value of `key`, a positive integer such as 540 or 540.0."""
        value = self.number(key, default, above=0)
        if value != int(value):
            raise self.wrong(key, "a whole number")
        return int(value)

    def numbers(
        self, key: str, length: int, default: tuple[float, ...] | None = None
    ) -> tuple[float, ...]:
        """Return the value of `key`, a list of `length` finite numbers."""
        values = self._read(
            key,
            default,
            f"a list of {length} finite numbers",
            lambda v: isinstance(v, list) and len(v) == length and all(map(_is_number, v)),
        )
        return tuple(map(float, values))

    def table(self, key: str, rows: tuple[int, ...], columns: int) -> tuple[tuple[float, ...], ...]:
        """Return the value of `key`, a list of lists of `columns` finite numbers. `rows` contains
        the allowed lengths of the outer list."""
        expected = f"{max(rows)} rows of {columns} numbers"
        value = self._read(key, None, expected, lambda v: isinstance(v, list) and len(v) in rows)
        lists = Fields({f"{key}, row {i}": row for i, row in enumerate(value)}, self.where)
        return tuple(lists.numbers(name, columns) for name in lists.values)

    def rows(self, key: str, columns: int) -> tuple[tuple[float, ...], ...]:
        """Return the value of `key`, a non-empty list of lists of `columns` finite numbers."""
        value = self._read(key, None, f"a list of rows of {columns} numbers", _is_filled)
        return self.table(key, (len(value),), columns)

    def flag(self, key: str, default: bool | None = None) -> bool:
        """Return the value of `key`, a boolean."""
        return bool(self._read(key, default, "true or false", lambda v: isinstance(v, bool)))

    def like(self, key: str, example: float | str) -> Any:
        """Return the value of `key` if it has the same type as `example`: float, int, or str."""
        if isinstance(example, float):
            return self.number(key)
        value, kind = self._present(key), type(example)
        is_huge = isinstance(value, int) and abs(value) >= 2**63  # JSON's integers have no limit
        if type(value) is not kind or is_huge:
            raise self.wrong(key, f"{kind.__name__}, such as {example!r}")
        return value

    def text(self, key: str) -> str:
        """Return the value of `key`, a non-empty string."""
        return str(self._read(key, None, "a text", _is_text))

    def texts(self, key: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        """Return the value of `key`, a list of non-empty strings. The list may be empty."""
        return tuple(self._read(key, default, "a list of texts", _are_texts))

    def object(self, key: str) -> Fields:
        """Return the value of `key`, a JSON object."""
        return Fields.of(self._present(key), f"{self.where}: {key}")

    def objects(self, key: str) -> list[Fields]:
        """Return the value of `key`, a non-empty list of JSON objects. Error messages contain the
        index of an object, counted from 0."""
        value = self._read(key, None, "a list with at least one entry", _is_filled)
        singular = key.removesuffix("s")
        return [Fields.of(entry, f"{self.where}, {singular} {i}") for i, entry in enumerate(value)]

    def _read(self, key: str, default: Any, expected: str, is_valid: Callable[[Any], bool]) -> Any:
        """Return the value of `key`, or `default` if it is not None and the key is missing."""
        if key not in self.values and default is not None:
            return default
        if not is_valid(value := self._present(key)):
            raise self.wrong(key, expected)
        return value

    def _present(self, key: str) -> Any:
        if key not in self.values:
            raise InputError(f"{self.where}: {key} is missing")
        return self.values[key]


def read_fields(path: Path) -> Fields:
    """Return the JSON object in a file."""
    return Fields.of(read_json(path), str(path))


def _shown(value: Any) -> str:
    try:
        # Values from msgpack may contain bytes, and keys of other types.
        shown = json.dumps(value, default=lambda other: type(other).__name__, skipkeys=True)
    except RecursionError:
        shown = f"a deeply nested {type(value).__name__}"
    # A row of numbers is not truncated, because any of the numbers may be wrong.
    is_row = isinstance(value, list) and all(isinstance(each, int | float) for each in value[:17])
    longest = ROW if is_row else 60
    return shown if len(shown) <= longest else shown[:longest] + "..."


def _is_filled(value: object) -> bool:
    return isinstance(value, list) and len(value) > 0


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_number(value: object) -> bool:
    # In Python, True is an integer, and the JSON reader accepts NaN and Infinity. All of these
    # values are rejected here.
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) <= LARGEST


Record = TypeVar("Record")
_hints = cache(get_type_hints)  # The annotations are strings, whose evaluation takes long.


class _Field(NamedTuple):
    kind: Any  # annotation
    is_required: bool


def as_json(value: Any) -> Any:
    """Return JSON values for an object that `read_as` can read."""
    if known := _fields(type(value)):
        return {name: as_json(getattr(value, name)) for name in known}
    if isinstance(value, Mapping):
        return {name: as_json(item) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return [as_json(item) for item in value]
    if hasattr(value, "tolist"):
        return value.tolist()
    return str(value) if isinstance(value, Path) else value


def read_as(kind: type[Record], json: Fields) -> Record:
    """Create a dataclass or a named tuple from a JSON object. Missing values are the defaults of
    the fields. `InputError` is raised if a key is unknown or missing, or if a value does not match
    its annotation."""
    known = _fields(kind)
    json.allow_only(*known)
    given = {name: one for name, one in known.items() if name in json or one.is_required}
    values = {name: _value(json, name, one.kind) for name, one in given.items()}
    with prefix_errors(json.where):
        return kind(**values)


def _fields(kind: Any) -> dict[str, _Field]:
    """Return the fields of a dataclass or a named tuple, and an empty mapping for other types."""
    if is_dataclass(kind):
        required = {
            field.name: field.default is MISSING and field.default_factory is MISSING
            for field in fields(kind)
            if field.init and field.metadata.get("saved", True)
        }
    else:
        defaults = getattr(kind, "_field_defaults", {})
        required = {name: name not in defaults for name in getattr(kind, "_fields", ())}
    hints = _hints(kind, include_extras=True) if required else {}
    return {name: _Field(hints[name], is_required) for name, is_required in required.items()}


def _value(json: Fields, key: str, hint: Any) -> Any:
    """Read the value of `key` as the type `hint`. If several types match, the first one is used."""
    kind = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        if NoneType in inner and json.is_null(key):
            return None
        *others, last = (option for option in inner if option is not NoneType)
        for option in others:
            with suppress(InputError):
                return _value(json, key, option)
        return _value(json, key, last)
    if _fields(kind):
        return read_as(kind, json.object(key))
    if kind is Path:
        return Path(json.text(key))
    if origin is tuple and inner[-1] is not Ellipsis:
        return json.numbers(key, len(inner))
    if origin is tuple:
        if not _fields(inner[0]):
            return json.texts(key)
        listed = json.objects(key) if json.values.get(key) != [] else ()
        return tuple(read_as(inner[0], item) for item in listed)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        items = json.object(key)
        return {name: _value(items, name, inner[1]) for name in items.values}
    if getattr(origin, "__name__", "") == "ndarray":
        return _array(json, key)
    if origin is Literal and json.values.get(key) not in inner:
        raise json.wrong(key, f"one of: {', '.join(map(str, inner))}")
    return json.flag(key) if kind is bool else json.like(key, "" if origin is Literal else kind())


def _array(json: Fields, key: str) -> Any:
    """Read nested lists of finite numbers as a float64 array."""
    import numpy as np  # Help pages appear without NumPy.

    with suppress(TypeError, ValueError):
        array = np.array(json.values[key], np.float64)
        if np.isfinite(array).all():
            return array
    raise json.wrong(key, "finite numbers")
