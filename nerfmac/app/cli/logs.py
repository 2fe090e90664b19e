"""Logging to standard error and to the file in --log-file, with escaped control characters. The
file contains all messages with their times. Standard error shows debug messages only with
NERFMAC_LOG=debug."""

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
    """Return the arguments without the option --log-file, and its value or None."""
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
            raise InputError(f"{FLAG} has no value; expected a file name")
    return kept, Path(path) if path else None


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
