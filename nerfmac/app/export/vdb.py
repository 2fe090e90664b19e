"""Writing of a density grid to an OpenVDB file, a volume format that Blender and Houdini read.

The layout is version 224, written by OpenVDB 12 (AcademySoftwareFoundation, openvdb/io and
openvdb/tree). The libraries on PyPI can read such files but cannot write new ones.

Only nonzero values are stored. A leaf contains 8 x 8 x 8 points, a lower node 16 x 16 x 16 leaves,
an upper node 32 x 32 x 32 lower nodes, and the root all upper nodes. A node has a bit for each
child, with x as the slowest axis. The file contains all nodes first and then the values of the
leaves, compressed with zlib.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

LEAF = 8  # Number of points along a side of a leaf.
BRANCHES = 16, 32  # Number of children along a side of a lower node and of an upper node.
VERSION, LIBRARY = 224, (12, 0)
"""Versions of the file layout and of the OpenVDB library that writes it."""
ZIPPED, ACTIVE_ONLY = 1, 2  # Bits of the compression flags: zlib, and omitted inactive values.
NAME = b"density"  # Grid name that Blender and Houdini expect in a volume.
TREE = b"Tree_float_5_4_3"
"""Type name of the grid: value type and base-2 logarithms of the node side lengths."""
NO_ID = b"00000000-0000-0000-0000-000000000000"
"""Constant instead of a random ID, so that equal grids result in equal files."""


def write_vdb(
    path: Path,
    density: npt.NDArray[np.float32],
    origin: npt.NDArray[np.float64],
    spacing: float,
) -> None:
    """Write density (x, y, z) per unit of length as a fog volume. Voxel (0, 0, 0) is at `origin`
    (3,)."""
    leaves: list[bytes] = []
    side = LEAF * BRANCHES[0] * BRANCHES[1]
    uppers = [
        struct.pack("<3i", *(side * index for index in indices)) + _node(block, 2, leaves)
        for indices, block in _blocks(density, side)
    ]
    grid = struct.pack("<I", ZIPPED | ACTIVE_ONLY) + _metadata() + _transform(origin, spacing)
    # There is one buffer per leaf, and values that are not stored are zero. There are no tiles
    # (constant nodes).
    grid += struct.pack("<IfII", 1, 0.0, 0, len(uppers)) + b"".join(uppers)
    head = struct.pack("<8sIIIB", b" BDV", VERSION, *LIBRARY, True) + NO_ID
    head += struct.pack("<II", 0, 1)  # No metadata of the file; one grid.
    head += _text(NAME) + _text(TREE) + _text(b"")
    start = len(head) + struct.calcsize("<3q")
    values = start + len(grid)
    head += struct.pack("<3q", start, values, values + sum(map(len, leaves)))
    with path.open("wb") as file:
        file.writelines([head, grid, *leaves])


def _node(values: npt.NDArray[np.float32], level: int, leaves: list[bytes]) -> bytes:
    """Return the encoded structure of a node of `level` 2, 1, or 0 (a leaf), and append the encoded
    values of its leaves to `leaves`."""
    if level == 0:
        whole = np.zeros((LEAF, LEAF, LEAF), "<f4")
        whole[tuple(slice(side) for side in values.shape)] = values
        is_active = whole != 0.0
        bits = _bits(is_active)
        leaves.append(bits + _packed(whole[is_active].tobytes()))
        return bits
    along = BRANCHES[level - 1]
    side = LEAF if level == 1 else LEAF * BRANCHES[0]
    has_child, children = np.zeros((along, along, along), bool), []
    for index, block in _blocks(values, side):
        has_child[index] = True
        children.append(_node(block, level - 1, leaves))
    return _bits(has_child) + _bits(np.zeros_like(has_child)) + _packed(b"") + b"".join(children)


def _blocks(
    values: npt.NDArray[np.float32], side: int
) -> Iterator[tuple[tuple[int, ...], npt.NDArray[np.float32]]]:
    """Yield the index and the values of each cube of `side` points that is not all zero."""
    for index in np.ndindex(*(-(-length // side) for length in values.shape)):
        block = values[tuple(slice(side * i, side * (i + 1)) for i in index)]
        if block.any():
            yield index, block


def _bits(flags: npt.NDArray[np.bool_]) -> bytes:
    return np.packbits(flags, bitorder="little").tobytes()


def _packed(values: bytes) -> bytes:
    """Encode active values, compressed with zlib if the result is shorter. The first byte is 0: all
    inactive values are 0. A negative length marks uncompressed values."""
    packed = zlib.compress(values)
    if len(packed) < len(values):
        return struct.pack("<bq", 0, len(packed)) + packed
    return struct.pack("<bq", 0, -len(values)) + values


def _metadata() -> bytes:
    values = {b"class": b"fog volume", b"name": NAME}
    entries = (_text(key) + _text(b"string") + _text(value) for key, value in values.items())
    return struct.pack("<I", len(values)) + b"".join(entries)


def _transform(origin: npt.NDArray[np.float64], spacing: float) -> bytes:
    """Encode the transform from voxel indices to coordinates: origin, spacing, and derived
    values."""
    rows: list[Any] = [origin, spacing, spacing, 1.0 / spacing, spacing**-2.0, 0.5 / spacing]
    numbers = b"".join(struct.pack("<3d", *np.broadcast_to(row, 3)) for row in rows)
    return _text(b"UniformScaleTranslateMap") + numbers


def _text(text: bytes) -> bytes:
    return struct.pack("<I", len(text)) + text
