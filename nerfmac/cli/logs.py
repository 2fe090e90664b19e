"""Output of the command line: log lines to standard error and to --log-file, and their quoting.

Names come from files of strangers, and a terminal obeys an escape sequence in a name: control
characters are quoted in all output. The log file has every line with its time, also the lines that
only NERFMAC_LOG=debug shows.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, TextIO, cast

from nerfmac.common.checks import InputError

VARIABLE = "NERFMAC_LOG"
LEVELS = {"info": logging.INFO, "debug": logging.DEBUG}
FLAG = "--log-file"

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters other than tab and newline, and lone surrogates, which cannot be printed:
Python uses them for bytes of file names that are not UTF-8."""

log = logging.getLogger("nerfmac")


def printable(text: str) -> str:
    r"""`text` with its control characters escaped, such as `\x1b`."""
    return CONTROL.sub(lambda match: ascii(match[0])[1:-1], text)


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


def without_log_file(words: Sequence[str]) -> tuple[list[str], Path | None]:
    """A command's arguments without --log-file, which all commands take, and the file's path.

    Raises `InputError` for the flag without a value.
    """
    kept: list[str] = []
    path: str | None = None
    rest = iter(words)
    for word in rest:
        name, has_value, value = word.partition("=")
        if name.replace("_", "-") != FLAG:
            kept.append(word)
            continue
        path = value if has_value else next(rest, "")
        if not path or path.startswith("--"):
            raise InputError(f"{FLAG} has no value; expected a file's name")
    return kept, Path(path) if path else None


@contextmanager
def logged(path: Path | None) -> Iterator[None]:
    """Context manager that shows the log, and appends it to the file `path` if there is one.

    Raises `InputError` if NERFMAC_LOG is no level or the file cannot be opened.
    """
    level = os.environ.get(VARIABLE) or "info"
    if level not in LEVELS:
        raise InputError(f"{VARIABLE} is {level!r}; expected one of: {', '.join(LEVELS)}")
    file = _File(path) if path else None
    before = log.level
    log.setLevel(logging.DEBUG if file else LEVELS[level])
    handlers: list[logging.Handler] = [file] if file else []
    if not logging.getLogger().handlers:  # else a program that calls this one shows the log
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
    """Formats lines as its base class does, and quotes control characters in them."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


class _File(logging.Handler):
    """Appends lines to a file. If one cannot be written, it warns once and stops writing."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self.setFormatter(_Printable("%(asctime)s %(levelname)s %(message)s"))
        try:
            # Unbuffered: closing a buffered file would try a failed line again.
            self._file = path.open("ab", buffering=0)
        except OSError as error:
            raise InputError(f"{path} cannot be written: {error.strerror}") from error

    def emit(self, record: logging.LogRecord) -> None:
        if self._file.closed:
            return
        try:
            self._file.write(f"{self.format(record)}\n".encode())
        except OSError as error:
            self._file.close()
            log.warning(
                "the log %s cannot be written: %s; going on without it", self._path, error.strerror
            )

    def close(self) -> None:
        self._file.close()
        super().close()
