"""`extract_density` evaluates the density of a field on a regular grid of points.

Outside the occupied cells, the density is set to zero, as in rendering, because the field has not
been trained there. The grid can be written to an OpenVDB file, a volume format that Blender and
Houdini read. The layout is version 224, written by OpenVDB 12 (AcademySoftwareFoundation,
openvdb/io and openvdb/tree). The libraries on PyPI can read such files but cannot write new ones.

An OpenVDB file contains only nonzero values. A leaf contains 8 x 8 x 8 points, a lower node
16 x 16 x 16 leaves, an upper node 32 x 32 x 32 lower nodes, and the root all upper nodes. A node
has a bit for each child, with x as the slowest axis. The file contains all nodes first and then the
values of the leaves, compressed with zlib.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np

from nerfmac.app.export.common import Progress, Region, Source, Stage, writing
from nerfmac.app.run import Run
from nerfmac.backend import confirm, host_memory_bytes, to_numpy
from nerfmac.common import BoolArray, Float32Array, Float64Array, InputError, checks
from nerfmac.config.rendering import Box

MAX_RESOLUTION = 4096
BATCH = 2**18  # Number of points that are looked up or evaluated at a time.
BYTES = 6
"""Approximate memory per grid point in bytes: 4 for the density and 2 for surface extraction."""
SHARE = 0.8  # Maximum fraction of the available memory that an export may use.


class Lattice(NamedTuple):
    """Grid of points at `origin` + `spacing` (i, j, k), in the coordinates of the input scene."""

    origin: Float64Array  # (3,)
    spacing: float
    shape: tuple[int, int, int]  # Number of points along x, y, and z.

    @classmethod
    def over(cls, region: Region, resolution: int) -> Lattice:
        """Create cubic cells over a box, with `resolution` cells along its longest side."""
        checks.number("resolution", resolution, low=2, high=MAX_RESOLUTION, whole=True)
        sides = region.high - region.low
        spacing = float(sides.max()) / int(resolution)
        # If the length of a side is a whole number of cells, rounding must not add a cell.
        x, y, z = (max(ceil(side / spacing - 1e-6), 1) + 1 for side in sides)
        return cls(region.low, spacing, (x, y, z))

    def grown(self) -> Lattice:
        """Return the lattice with an additional point on every side."""
        x, y, z = self.shape
        return Lattice(self.origin - self.spacing, self.spacing, (x + 2, y + 2, z + 2))

    def position(self, index: Float64Array) -> Float64Array:
        """Return the positions (..., 3) at indices (..., 3), which may be fractional."""
        return self.origin + self.spacing * np.asarray(index, np.float64)

    def check_memory(self) -> None:
        """Raise `InputError` if the lattice requires more than the share `SHARE` of the memory."""
        available = host_memory_bytes()
        needed = BYTES * int(np.prod(self.shape, dtype=np.int64))
        if needed > SHARE * available:
            x, y, z = self.shape
            fitting = int(max(self.shape) * (SHARE * available / needed) ** (1 / 3)) - 2
            raise InputError(
                f"{x} x {y} x {z} points need about {needed / 1e9:.1f} GB of the machine's "
                f"{available / 1e9:.1f} GB; a resolution of {fitting} fits, or use a smaller crop"
            )

    def sample(self, source: Source, *, progress: Progress = True) -> Float32Array:
        """Return the density per scene unit at all points of the grid, with the axes x, y, and z.

        Outside occupied cells, the density is 0.
        """
        values = np.zeros(self.shape, np.float32)
        thick = max(BATCH // values[0].size, 1)
        with Stage(len(values), "density", "plane", progress) as stage:
            for first in range(0, len(values), thick):
                slab = values[first : first + thick]
                index = np.indices(slab.shape).reshape(3, -1).T + [first, 0, 0]
                position = source.placement.to_scene(self.position(index))
                occupied = np.flatnonzero(source.occupied.hold(position))
                for some in np.split(occupied, range(BATCH, len(occupied), BATCH)):
                    density = source.trained.density(mx.array(position[some], mx.float32))
                    slab.reshape(-1)[some] = to_numpy(density)
                stage.update(len(slab))
        confirm()
        return values


@dataclass(frozen=True, eq=False)
class DensityGrid:
    """Density at the grid points `origin` + `spacing` (i, j, k), in the coordinates of the input
    scene."""

    density: Float32Array  # (x, y, z), per unit of length of these coordinates.
    origin: Float64Array  # (3,)
    spacing: float

    def __repr__(self) -> str:
        x, y, z = self.density.shape
        return f"DensityGrid({x} x {y} x {z})"

    def save(self, path: str | Path) -> None:
        """Write the density to a file.

        Args:
            path: File with the extension .vdb, for an OpenVDB volume.

        Raises:
            InputError: If the file has another extension or cannot be written.
        """
        with writing(path, "density", ".vdb") as partial:
            write_vdb(partial, self.density, self.origin, self.spacing)


def extract_density(
    run: Run, *, resolution: int = 256, crop: Box | None = None, progress: Progress = True
) -> DensityGrid:
    """Evaluate the density of a trained field on a regular grid.

    Args:
        run: Run to export.
        resolution: Number of cells along the longest side of the box.
        crop: Lowest and highest corner of the box in the coordinates of the input scene, as in
            `extract_mesh`.
        progress: Whether to show a progress bar, or a function; see `common.Progress`.

    Returns:
        Density in the coordinates of the input scene. In empty cells of the occupancy grid, the
        density is zero.

    Raises:
        InputError: If an argument is out of range or the memory is insufficient.
    """
    source = Source.of(run)
    lattice = Lattice.over(source.region(crop), resolution)
    lattice.check_memory()
    values = lattice.sample(source, progress=progress)
    values *= source.placement.scale  # Convert from density per scene unit.
    return DensityGrid(values, lattice.origin, lattice.spacing)


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


def write_vdb(path: Path, density: Float32Array, origin: Float64Array, spacing: float) -> None:
    """Write density (x, y, z) per length as a fog volume with voxel (0, 0, 0) at `origin` (3,)."""
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


def _node(values: Float32Array, level: int, leaves: list[bytes]) -> bytes:
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


def _blocks(values: Float32Array, side: int) -> Iterator[tuple[tuple[int, ...], Float32Array]]:
    """Yield the index and the values of each cube of `side` points that is not all zero."""
    for index in np.ndindex(*(-(-length // side) for length in values.shape)):
        block = values[tuple(slice(side * i, side * (i + 1)) for i in index)]
        if block.any():
            yield index, block


def _bits(flags: BoolArray) -> bytes:
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


def _transform(origin: Float64Array, spacing: float) -> bytes:
    """Encode the transform from voxel indices to coordinates, with its derived values."""
    rows: list[Any] = [origin, spacing, spacing, 1.0 / spacing, spacing**-2.0, 0.5 / spacing]
    numbers = b"".join(struct.pack("<3d", *np.broadcast_to(row, 3)) for row in rows)
    return _text(b"UniformScaleTranslateMap") + numbers


def _text(text: bytes) -> bytes:
    return struct.pack("<I", len(text)) + text
