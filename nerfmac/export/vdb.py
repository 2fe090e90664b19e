"""A density as an OpenVDB file, which Blender and Houdini read as a volume.

The layout is that of the files that OpenVDB 12 writes, version 224 (AcademySoftwareFoundation,
openvdb/io and openvdb/tree). The libraries that pip installs read such files but make no new ones.

Only what is not zero is stored. A point's cube of 8 x 8 x 8 is a leaf; 16 x 16 x 16 of these are
under a lower node, 32 x 32 x 32 of those under an upper node, and the root has the upper ones. Each
node says by a bit for each of its places whether there is something, x being the slowest axis. What
the nodes look like comes first, then the leaves' values, each leaf packed by zlib.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

LEAF = 8
"""Points along a leaf."""
BRANCHES = 16, 32
"""Children along a lower node, and along an upper node."""
VERSION, LIBRARY = 224, (12, 0)
"""Of the file's layout, and of the OpenVDB that writes it so."""
ZIPPED, ACTIVE_ONLY = 1, 2
"""Bits of the compression: values are packed by zlib, and zeros are left out."""
NAME = b"density"
"""Of the grid: what Blender's and Houdini's volumes look for."""
TREE = b"Tree_float_5_4_3"
"""Its type, with the nodes' sides as powers of two."""
NO_ID = b"00000000-0000-0000-0000-000000000000"
"""In place of a random number for each file, so that equal grids are equal files."""


def write_vdb(
    path: Path,
    density: npt.NDArray[np.float32],
    origin: npt.NDArray[np.float64],
    spacing: float,
) -> None:
    """Write a fog volume to `path`: `density` (x, y, z) at `origin` (3,) + `spacing` (i, j, k)."""
    leaves: list[bytes] = []
    side = LEAF * BRANCHES[0] * BRANCHES[1]
    uppers = [
        struct.pack("<3i", *(side * place for place in places)) + _node(block, 2, leaves)
        for places, block in _blocks(density, side)
    ]
    grid = struct.pack("<I", ZIPPED | ACTIVE_ONLY) + _metadata() + _placed(origin, spacing)
    # One buffer a leaf; zero where nothing is stored; no tiles, which are nodes of one value.
    grid += struct.pack("<IfII", 1, 0.0, 0, len(uppers)) + b"".join(uppers)
    head = struct.pack("<8sIIIB", b" BDV", VERSION, *LIBRARY, True) + NO_ID
    head += struct.pack("<II", 0, 1)  # nothing is said about the file; one grid
    head += _text(NAME) + _text(TREE) + _text(b"")
    start = len(head) + struct.calcsize("<3q")
    values = start + len(grid)
    head += struct.pack("<3q", start, values, values + sum(map(len, leaves)))
    with path.open("wb") as file:
        file.writelines([head, grid, *leaves])


def _node(values: npt.NDArray[np.float32], level: int, leaves: list[bytes]) -> bytes:
    """What a node of `level` 2, 1 or 0, a leaf, looks like; the leaves' values join `leaves`."""
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
    for place, block in _blocks(values, side):
        has_child[place] = True
        children.append(_node(block, level - 1, leaves))
    return _bits(has_child) + _bits(np.zeros_like(has_child)) + _packed(b"") + b"".join(children)


def _blocks(
    values: npt.NDArray[np.float32], side: int
) -> Iterator[tuple[tuple[int, ...], npt.NDArray[np.float32]]]:
    """Blocks of `side` along each axis, where something is not zero, and which they are."""
    for place in np.ndindex(*(-(-length // side) for length in values.shape)):
        block = values[tuple(slice(side * each, side * (each + 1)) for each in place)]
        if block.any():
            yield place, block


def _bits(flags: npt.NDArray[np.bool_]) -> bytes:
    return np.packbits(flags, bitorder="little").tobytes()


def _packed(values: bytes) -> bytes:
    """Values, all others being zero; with a length below 0 where packing would not shorten them."""
    packed = zlib.compress(values)
    if len(packed) < len(values):
        return struct.pack("<bq", 0, len(packed)) + packed
    return struct.pack("<bq", 0, -len(values)) + values


def _metadata() -> bytes:
    said = {b"class": b"fog volume", b"name": NAME}
    each = (_text(key) + _text(b"string") + _text(value) for key, value in said.items())
    return struct.pack("<I", len(said)) + b"".join(each)


def _placed(origin: npt.NDArray[np.float64], spacing: float) -> bytes:
    """Where points lie: a shift, a scale, and what OpenVDB keeps of it beside."""
    rows: list[Any] = [origin, spacing, spacing, 1.0 / spacing, spacing**-2.0, 0.5 / spacing]
    each = b"".join(struct.pack("<3d", *np.broadcast_to(row, 3)) for row in rows)
    return _text(b"UniformScaleTranslateMap") + each


def _text(text: bytes) -> bytes:
    return struct.pack("<I", len(text)) + text
