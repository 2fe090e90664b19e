"""The file of a snapshot: a msgpack object, which in an .ingp is compressed by zlib."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Any

from nerfmac.checks import InputError
from nerfmac.extras import needed
from nerfmac.files import appearing
from nerfmac.json_reader import Fields

ENDINGS = (".ingp", ".msgpack")
GZIP = b"\x1f\x8b"

FASTEST = 1
"""zlib's level: half-precision numbers hardly get smaller by a higher one."""


def is_snapshot(path: Path) -> bool:
    """Whether `path` has the name of a snapshot's file."""
    return path.suffix.lower() in ENDINGS


def read_container(path: Path) -> Fields:
    """The values in the file. Raises `InputError` for one that is not whole or no snapshot."""
    msgpack = _msgpack()
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    try:
        if path.suffix.lower() == ".ingp":
            data = gzip.decompress(data) if data.startswith(GZIP) else zlib.decompress(data)
        values = msgpack.unpackb(data, raw=False, strict_map_key=False)
    except (zlib.error, EOFError, gzip.BadGzipFile) as error:
        raise InputError(f"{path} is cut off or no .ingp: {error}") from error
    except (ValueError, msgpack.exceptions.UnpackException) as error:
        raise InputError(f"{path} is cut off or no msgpack: {error}") from error
    return Fields.of(values, str(path))


def write_container(path: Path, values: dict[str, Any]) -> None:
    """Write `values`, as a whole or not at all. Raises `InputError` as `files.appearing` does."""
    data = _msgpack().packb(values, use_bin_type=True)
    with appearing(path) as partial:
        partial.write_bytes(
            zlib.compress(data, FASTEST) if path.suffix.lower() == ".ingp" else data
        )


def need_msgpack() -> None:
    """Raise `InputError` if the library of the extra `ingp` is not installed."""
    _msgpack()


def _msgpack() -> Any:
    return needed("msgpack", "ingp", "snapshots need")
