"""The file of a snapshot: a msgpack object, compressed by zlib in an .ingp."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

from nerfmac.common.checks import InputError
from nerfmac.common.extras import needed
from nerfmac.common.json_reader import Fields

ENDINGS = (".ingp", ".msgpack")
GZIP_OR_ZLIB = zlib.MAX_WBITS | 32
"""Window bits that let zlib detect from the header whether a stream is gzip or zlib."""

LEAST_LIMIT, LARGEST_LIMIT = 2**28, 2**31
RATIO = 32
"""A file may inflate to this many times its size, but always to `LEAST_LIMIT` and never to more
than `LARGEST_LIMIT` bytes. Parameters hardly compress, and an occupancy grid has 32 MiB."""
MOST_VALUES = 2**22
"""Largest number of values in a file's lists and maps together. A camera has about 50; all
parameters are one byte string and count as one."""


def is_snapshot(path: Path) -> bool:
    """Whether `path` has the name of a snapshot's file."""
    return path.suffix.lower() in ENDINGS


def read_container(path: Path) -> Fields:
    """Read a snapshot's file. Raises `InputError` if it is cut off, no msgpack or far too large."""
    msgpack = needed("msgpack", "ingp", "snapshots need")
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
    """Inflate a zlib or gzip stream. Raises `InputError` if it is cut off or beyond the limit."""
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
        f"{path} has {len(data)} bytes that inflate to more than {limit}; expected the field of "
        "one scene; if the snapshot contains the optimizer state, save it without that state"
    )


class _Count:
    """msgpack's hook for lists and maps; raises `ValueError` for more values than `left`."""

    def __init__(self, left: int) -> None:
        self.left = left

    def __call__(self, values: Any) -> Any:
        self.left -= 1 + len(values)
        if self.left < 0:
            raise ValueError(f"it lists more than {MOST_VALUES} values")
        return values
