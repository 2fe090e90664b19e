"""The file of a snapshot: a msgpack object, which in an .ingp is compressed by zlib."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

from nerfmac.common.checks import InputError
from nerfmac.common.extras import needed
from nerfmac.common.files import appearing
from nerfmac.common.json_reader import Fields

ENDINGS = (".ingp", ".msgpack")
GZIP_OR_ZLIB = zlib.MAX_WBITS | 32
"""zlib's window bits for a stream of either kind, told by its header."""

LEAST_LIMIT = 2**28
LARGEST_LIMIT = 2**31
RATIO = 32
"""An .ingp may inflate to this many times its size, but to at least `LEAST_LIMIT` and at most
`LARGEST_LIMIT` bytes: its parameters hardly get smaller, and its occupancy grid has 32 MiB."""

MOST_VALUES = 2**22
"""Most values in lists and maps: a camera has about 50, and parameters are one binary value."""

FASTEST = 1
"""zlib's level: half-precision numbers hardly get smaller by a higher one."""


def is_snapshot(path: Path) -> bool:
    """Whether `path` has the name of a snapshot's file."""
    return path.suffix.lower() in ENDINGS


def read_container(path: Path) -> Fields:
    """The values in the file.

    Raises `InputError` for one that is not whole, is no snapshot or needs far too much memory.
    """
    msgpack = _msgpack()
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    if path.suffix.lower() == ".ingp":
        data = _inflated(data, path)
    count = _Count(MOST_VALUES)
    try:
        values = msgpack.unpackb(
            data,
            list_hook=count,
            object_hook=count,
            max_array_len=MOST_VALUES,
            max_map_len=MOST_VALUES,
        )
    except (ValueError, msgpack.exceptions.UnpackException) as error:
        raise InputError(f"{path} is cut off or no msgpack: {error}") from error
    return Fields.of(values, str(path))


def _inflated(data: bytes, path: Path) -> bytes:
    """The bytes that a zlib or gzip stream holds. Raises `InputError` beyond the limit."""
    limit = min(max(LEAST_LIMIT, RATIO * len(data)), LARGEST_LIMIT)
    stream = zlib.decompressobj(GZIP_OR_ZLIB)
    try:
        inflated = stream.decompress(data, limit)
    except zlib.error as error:
        raise InputError(f"{path} is cut off or no .ingp: {error}") from error
    if stream.eof:
        return inflated
    if len(inflated) < limit:
        raise InputError(f"{path} is cut off: its compressed stream has no end")
    raise InputError(
        f"{path} has {len(data)} bytes that inflate to more than {limit}; expected the field of a "
        "scene, without the optimiser's state if it is that large"
    )


class _Count:
    """Hook of msgpack for lists and maps: raises `ValueError` for more values than `left`."""

    def __init__(self, left: int) -> None:
        self.left = left

    def __call__(self, values: Any) -> Any:
        self.left -= 1 + len(values)
        if self.left < 0:
            raise ValueError(f"it lists more than {MOST_VALUES} values")
        return values


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
