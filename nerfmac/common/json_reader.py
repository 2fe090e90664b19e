"""Strict reading of JSON objects. Error messages contain the location of the wrong value."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nerfmac.common.checks import LARGEST, InputError
from nerfmac.common.files import read_json

ROW = 400  # Maximum length, in characters, of a row of numbers in an error message.


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
        expected = "a list of texts"
        return tuple(
            self._read(
                key, default, expected, lambda v: isinstance(v, list) and all(map(_is_text, v))
            )
        )

    def object(self, key: str) -> Fields:
        """Return the value of `key`, a JSON object."""
        return Fields.of(self._present(key), f"{self.where}: {key}")

    def objects(self, key: str) -> list[Fields]:
        """Return the value of `key`, a non-empty list of JSON objects. Error messages contain the
        index of an object, counted from 0."""
        value = self._read(key, None, "a list with at least one entry", _is_filled)
        singular = key.removesuffix("s")
        for index, entry in enumerate(value):
            if not isinstance(entry, dict):
                raise InputError(f"{self.where}, {singular} {index}: expected an object")
        return [Fields(entry, f"{self.where}, {singular} {i}") for i, entry in enumerate(value)]

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
    values = read_json(path)
    if not isinstance(values, dict):
        raise InputError(f"{path} contains a JSON {type(values).__name__}; expected an object")
    return Fields(values, str(path))


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


def _is_number(value: object) -> bool:
    # In Python, True is an integer, and the JSON reader accepts NaN and Infinity. All of these
    # values are rejected here.
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) <= LARGEST
