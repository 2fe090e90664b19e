"""Printing and logging with escaped control characters.

File names and metadata may come from untrusted sources, and a terminal would execute the escape
sequences in them. The file in --log-file contains all messages with their times. Standard error
shows debug messages only with NERFMAC_LOG=debug.
"""

import logging
import os
import re
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, NoReturn, TextIO, cast

from nerfmac.common import InputError, log

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
    """Print `text` and exit with `code`, even if the reader of standard output has closed it."""
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


VARIABLE = "NERFMAC_LOG"
LEVELS = {"info": logging.INFO, "debug": logging.DEBUG}


@contextmanager
def logged(path: Path | None) -> Iterator[None]:
    """Context manager that shows log messages on standard error and appends them to a file."""
    level = os.environ.get(VARIABLE) or "info"
    if level not in LEVELS:
        raise InputError(f"{VARIABLE} is {level!r}; expected one of: {', '.join(LEVELS)}")
    file = _File(path) if path else None
    before = log.level
    log.setLevel(logging.DEBUG if file else LEVELS[level])
    handlers: list[logging.Handler] = [file] if file else []
    if not logging.getLogger().handlers:  # Otherwise the calling program shows the log.
        shown = logging.StreamHandler(sys.stderr)
        shown.setFormatter(_Printable("nerfmac: %(message)s"))
        shown.setLevel(LEVELS[level])
        handlers.append(shown)
    for handler in handlers:
        log.addHandler(handler)
    try:
        yield
    finally:
        log.setLevel(before)
        for handler in handlers:
            log.removeHandler(handler)
            handler.close()


class _Printable(logging.Formatter):
    """Formatter that escapes control characters."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


class _File(logging.Handler):
    """Handler that appends lines to a file. If writing fails, the handler prints a warning once and
    stops writing."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self.setFormatter(_Printable("%(asctime)s %(levelname)s %(message)s"))
        try:
            # Closing a buffered file would write a failed line again.
            self._file = path.open("ab", buffering=0)
        except OSError as error:
            raise InputError(f"cannot write {path}: {error.strerror}") from error

    def emit(self, record: logging.LogRecord) -> None:
        if self._file.closed:
            return
        try:
            self._file.write(f"{self.format(record)}\n".encode())
        except OSError as error:
            self._file.close()
            log.warning(
                "cannot write the log file %s: %s; continuing without it",
                self._path,
                error.strerror,
            )

    def close(self) -> None:
        self._file.close()
        super().close()
