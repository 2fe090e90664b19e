"""What is printed: quoted, since names come from files of strangers.

A terminal obeys an escape sequence in a name: control characters are quoted in all output.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any, NoReturn, TextIO, cast

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters other than tab and newline, and lone surrogates, which cannot be printed:
Python uses them for bytes of file names that are not UTF-8."""


def printable(text: str) -> str:
    r"""`text` with its control characters escaped, such as `\x1b`."""
    return CONTROL.sub(lambda match: ascii(match[0])[1:-1], text)


def refuse(message: str) -> NoReturn:
    """Print a message on standard error and exit with code 2."""
    print(printable(f"nerfmac: {message}"), file=sys.stderr)
    sys.exit(2)


def print_and_exit(text: str, code: int) -> NoReturn:
    """Print a text and exit with the code, also if the reader has closed our output."""
    with until_closed():
        print(text)
    sys.exit(code)


@contextmanager
def until_closed() -> Iterator[None]:
    """Context manager that ends quietly if the reader of standard output has closed it."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # Python must not flush the rest at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def with_flag(message: str, flags: Collection[str]) -> str:
    """A message that begins with a parameter's name, with the flag of that name instead."""
    name, space, rest = message.partition(" ")
    flag = f"--{name.replace('_', '-')}"
    return f"{flag}{space}{rest}" if flag in flags else message


@contextmanager
def printing_quoted() -> Iterator[None]:
    """Context manager that makes all standard output `printable`."""
    with redirect_stdout(cast(TextIO, _Quoted(sys.stdout))):
        yield


class _Quoted:
    """A text stream that quotes what is written to it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(printable(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
