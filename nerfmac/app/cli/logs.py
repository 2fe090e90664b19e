"""Log lines of the command line: to standard error and to --log-file, control characters quoted.

The log file has every line with its time, also the lines that only NERFMAC_LOG=debug shows.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from nerfmac.app.cli.printing import printable
from nerfmac.common.checks import InputError

VARIABLE = "NERFMAC_LOG"
LEVELS = {"info": logging.INFO, "debug": logging.DEBUG}
FLAG = "--log-file"

log = logging.getLogger("nerfmac")


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
    """Appends lines to a file. If a line cannot be written, it warns once and stops writing."""

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
