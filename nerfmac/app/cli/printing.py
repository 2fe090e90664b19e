"""Printing of text with escaped control characters, because file names and metadata may come from
untrusted sources, and a terminal would execute the escape sequences in them."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any, NoReturn, TextIO, cast

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters other than tab and newline, and lone surrogates. If a file name is not valid
UTF-8, Python decodes the invalid bytes to lone surrogates, and these cannot be printed."""


def printable(text: str) -> str:
    r"""Return `text` with its control characters escaped, such as `\x1b`."""
    return CONTROL.sub(lambda match: ascii(match[0])[1:-1], text)


def refuse(message: str) -> NoReturn:
    """Print an error message to standard error and exit with code 2."""
    print(printable(f"nerfmac: {message}"), file=sys.stderr)
    sys.exit(2)


def print_and_exit(text: str, code: int) -> NoReturn:
    """Print `text` and exit with `code`, even if the program that reads standard output has closed
    it."""
    with until_closed():
        print(text)
    sys.exit(code)


@contextmanager
def until_closed() -> Iterator[None]:
    """Context manager that ends silently if the program that reads standard output closes it."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # Redirecting standard output prevents Python from flushing the remaining output at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def with_flag(message: str, flags: Collection[str]) -> str:
    """Replace a parameter at the start of an error message, such as `max_images`, with its option
    if `flags` contains this option."""
    name, space, rest = message.partition(" ")
    flag = f"--{name.replace('_', '-')}"
    return f"{flag}{space}{rest}" if flag in flags else message


@contextmanager
def printing_quoted() -> Iterator[None]:
    """Context manager that escapes control characters in standard output."""
    with redirect_stdout(cast(TextIO, _Quoted(sys.stdout))):
        yield


class _Quoted:
    """Text stream that escapes control characters."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(printable(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
