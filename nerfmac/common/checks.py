"""Argument checks. A failed check raises `InputError` with the argument's name, its value, and the
expected values. The command line prints the message and exits with code 2. Any other exception is a
bug in nerfmac and is shown with its traceback."""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # not imported at run time, so that `--help` starts faster
    import mlx.core as mx
    import numpy.typing as npt

    from nerfmac.common.arrays import Float64Array

log = logging.getLogger("nerfmac")  # The command line prints its messages.
LARGEST = 1e15  # Largest absolute value in arrays and files; its square fits in float32.


class InputError(ValueError):
    """Error in arguments, options, or files provided by the user.

    The message describes the problem, its location, and the expected value.
    """


@contextmanager
def prefix_errors(where: str) -> Iterator[None]:
    """Return a context manager that adds the prefix `where`, such as a file name, to the messages
    of `InputError`s."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{where}: {error}") from error


def shape(name: str, values: mx.array, expected: Sequence[int | None]) -> None:
    """Raise `InputError` unless `values` has the `expected` shape. None matches any axis length."""
    if values.ndim != len(expected) or any(
        want is not None and got != want for got, want in zip(values.shape, expected, strict=True)
    ):
        wanted = ", ".join("*" if size is None else str(size) for size in expected)
        raise InputError(f"{name} has shape {tuple(values.shape)}; expected ({wanted})")


def dtype(name: str, values: mx.array, *allowed: mx.Dtype) -> None:
    """Raise `InputError` unless the dtype of `values` is one of `allowed`."""
    if values.dtype not in allowed:
        names = " or ".join(str(kind).removeprefix("mlx.core.") for kind in allowed)
        got = str(values.dtype).removeprefix("mlx.core.")
        raise InputError(f"{name} is {got}; expected {names}")


def number(
    name: str, value: float, *, low: float = -math.inf, high: float = math.inf, whole: bool = False
) -> None:
    """Raise `InputError` unless `value` is a finite number in [low, high] and, if `whole`, an
    integer."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    is_number = is_number and abs(value) < 1e300  # larger integers do not fit in a float
    if not is_number or not math.isfinite(value) or (whole and value != int(value)):
        raise InputError(f"{name} is {value!r}; expected {'an integer' if whole else 'a number'}")
    if not low <= value <= high:
        bounds = f"at least {low:g}" if high == math.inf else f"between {low:g} and {high:g}"
        raise InputError(f"{name} is {value:g}; expected {bounds}")


def optional_number(name: str, value: float | None, **limits: Any) -> None:
    """Raise `InputError` unless `value` is None or passes the check `number` with these limits."""
    if value is not None:
        number(name, value, **limits)


def finite(name: str, values: npt.ArrayLike, expected: tuple[int, ...]) -> Float64Array:
    """Return a float64 copy of `values`. Raise `InputError` if the shape is not `expected`, or if a
    value is NaN or its absolute value exceeds `LARGEST`."""
    import numpy as np

    array = np.array(values, np.float64)
    if array.shape != expected:
        raise InputError(f"{name} has shape {array.shape}; expected {expected}")
    if not (np.abs(array) <= LARGEST).all():  # also False for NaN
        raise InputError(f"{name} has a value that is not finite or larger than {LARGEST:g}")
    return array


def flag(name: str, value: bool) -> None:
    """Raise `InputError` unless `value` is True or False."""
    if not isinstance(value, bool):
        raise InputError(f"{name} is {value!r}; expected true or false")


def kind(name: str, value: object, allowed: type, expected: str) -> None:
    """Raise `InputError` unless `value` has the type `allowed`. The error message describes this
    type as `expected`."""
    if not isinstance(value, allowed):
        raise InputError(f"{name} is {value!r}; expected {expected}")


def choice(name: str, value: str, allowed: Collection[str]) -> None:
    """Raise `InputError` unless `value` is one of the `allowed` strings."""
    if value not in allowed:
        raise InputError(f"{name} is {value!r}; expected one of: {', '.join(sorted(allowed))}")
