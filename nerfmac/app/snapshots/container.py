"""File format of snapshots: a msgpack object. In an .ingp file, it is compressed with zlib."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

from nerfmac.common.checks import InputError
from nerfmac.common.installing import needed
from nerfmac.common.json_reader import Fields

ENDINGS = (".ingp", ".msgpack")
GZIP_OR_ZLIB = zlib.MAX_WBITS | 32
"""Window bits with which zlib detects from the header whether a stream is gzip or zlib."""
LEAST_LIMIT, LARGEST_LIMIT = 2**28, 2**31
RATIO = 32
"""Maximum ratio of the decompressed size to the file size. A decompressed size of up to
`LEAST_LIMIT` bytes is always accepted. More than `LARGEST_LIMIT` bytes are always refused. The
parameters can hardly be compressed, and an occupancy grid has 32 MiB."""
MOST_VALUES = 2**22
"""Maximum number of values in a file. A camera has about 50, and all parameters count as one."""


def is_snapshot(path: Path) -> bool:
    """Return whether `path` has the file extension of a snapshot."""
    return path.suffix.lower() in ENDINGS


def read_container(path: Path) -> Fields:
    """Read a snapshot file."""
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
        raise InputError(f"{path} is truncated or not a msgpack file: {error}") from error
    return Fields.of(values, str(path))


def _inflated(data: bytes, path: Path) -> bytes:
    """Decompress a zlib or gzip stream."""
    limit = min(max(LEAST_LIMIT, RATIO * len(data)), LARGEST_LIMIT)
    stream = zlib.decompressobj(GZIP_OR_ZLIB)
    try:
        inflated = stream.decompress(data, limit)
    except zlib.error as error:
        raise InputError(f"{path} is truncated or not an .ingp file: {error}") from error
    if stream.eof:
        return inflated
    if len(inflated) < limit:
        raise InputError(f"{path} is truncated: the end of the compressed stream is missing")
    raise InputError(
        f"{path} has {len(data)} bytes that decompress to more than {limit}; expected the field of "
        "one scene; if the snapshot contains the optimizer state, save it without that state"
    )


class _Count:
    """Callback of msgpack that limits the number of values in lists and maps. It raises
    `ValueError` if a file contains more values than `left`."""

    def __init__(self, left: int) -> None:
        self.left = left

    def __call__(self, values: Any) -> Any:
        self.left -= 1 + len(values)
        if self.left < 0:
            raise ValueError(f"it contains more than {MOST_VALUES} values")
        return values
