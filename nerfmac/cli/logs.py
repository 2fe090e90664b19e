"""Where the log goes: to standard error as NERFMAC_LOG says, and with --log-file to a file.

The file has every line, with the time, also those that only NERFMAC_LOG=debug shows.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from nerfmac.cli.terminal import printable
from nerfmac.common.checks import InputError

VARIABLE = "NERFMAC_LOG"
LEVELS = {"info": logging.INFO, "debug": logging.DEBUG}
FLAG = "--log-file"

log = logging.getLogger("nerfmac")


def without_log_file(words: Sequence[str]) -> tuple[list[str], Path | None]:
    """A verb's arguments without --log-file, and the file. Raises `InputError` if it has no name.

    The flag is every verb's, so no verb lists it.
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
    """Within it the log is shown, and written to `path` if there is one, after what it holds.

    Raises `InputError` if NERFMAC_LOG is no level or the file cannot be opened.
    """
    named = os.environ.get(VARIABLE) or "info"
    if named not in LEVELS:
        raise InputError(f"{VARIABLE} is {named!r}; expected one of: {', '.join(LEVELS)}")
    file = _File(path) if path else None
    before = log.level
    log.setLevel(logging.DEBUG if file else LEVELS[named])
    handlers: list[logging.Handler] = [file] if file else []
    if not logging.getLogger().handlers:  # else a program around this one shows the log
        shown = logging.StreamHandler(sys.stderr)
        shown.setFormatter(_Printable("nerfmac: %(message)s"))
        shown.setLevel(LEVELS[named])
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
    """Formats lines as its base does, and quotes control characters in them."""

    def format(self, record: logging.LogRecord) -> str:
        """The record's line."""
        return printable(super().format(record))


class _File(logging.Handler):
    """Appends lines to a file; if the disk is full it says so once, and the program goes on."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self.setFormatter(_Printable("%(asctime)s %(levelname)s %(message)s"))
        try:
            # Without a buffer: a line that failed would be tried again when the file is closed.
            self._file = path.open("ab", buffering=0)
        except OSError as error:
            raise InputError(f"{path} cannot be written: {error.strerror}") from error

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
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
        """Close the file."""
        self._file.close()
        super().close()
