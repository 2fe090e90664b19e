"""Control characters are quoted in all that a verb prints.

Names come from the files of strangers, and a terminal obeys an escape sequence in a name.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any, TextIO, cast

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters other than tab and newline; and halves of surrogate pairs, by which Python
reads names that are not UTF-8, and which cannot be printed."""


def printable(text: str) -> str:
    r"""The `text` with its control characters as Python writes them, such as `\x1b` for escape."""
    return CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


@contextmanager
def printing_quoted() -> Iterator[None]:
    """Within it, what is printed to standard output is `printable`."""
    with redirect_stdout(cast(TextIO, _Printable(sys.stdout))):
        yield


class _Printable:
    """A text stream that quotes what is written to it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write the `text`, quoted."""
        return self._stream.write(printable(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
