"""Multiresolution hash encoding: trilinear interpolation of table entries at several resolutions.

Müller et al. 2022, section 3 and equations 2 to 4, describe the encoding. The grid follows
tiny-cuda-nn's conventions: level l has scale_l = coarsest * growth^l - 1 and ceil(scale_l) + 1
vertices along each axis. A point with the unit coordinate u in the scene cube has the coordinate
u * scale_l + 0.5 in the grid of level l. The offset of half a cell prevents the vertices of
different levels from coinciding at the border. A level with at most 2^log2_entries vertices is
stored as a dense grid. The other levels are hashed with the primes 1, 2654435761, and 805459861.
"""

from dataclasses import dataclass
from functools import cached_property
from math import ceil

import mlx.core as mx

from nerfmac.backend import Kernel, Signature, simd_width, variant, working_dtype
from nerfmac.backend.apple import additions_per_launch
from nerfmac.backend.metal_text import DEVICE_SIZE
from nerfmac.common.constants import HASH_PRIME_Y, HASH_PRIME_Z, SCENE_CENTER
from nerfmac.ops.operation import operation

CORNERS = 8
"""Number of corners of a grid cell. At each level, encoding a point reads one table row per corner,
and its gradient adds to the same rows."""

_TAKES = Signature(
    positions=(mx.float32, "points", 3),
    table=((mx.float32, working_dtype), "entries", "features"),
    used=(mx.int32, 1),
)
_TABLE = Signature(table=(working_dtype, "entries", "features"))
_LEVELS = Signature(
    grids=(mx.float32, "levels", 2), shapes=(mx.uint32, "numbers"), used=_TAKES["used"]
)
_POSITIONS = Signature(positions=_TAKES["positions"])
_GRADIENT = Signature(gradient=(working_dtype, "rows", "columns"))
_ADDED = Signature(**_POSITIONS, **_GRADIENT, **_LEVELS, part=(mx.uint32, 2))
_UNITS = Signature(units=(mx.int32, "entries", "features"))
_FLOATS = Signature(table_gradient=(mx.float32, "entries", "features"))
_FORWARD = Kernel(
    "hash_encode",
    "hash_encode_forward",
    Signature(**_POSITIONS, **_TABLE, **_LEVELS),
    Signature(encoded=(working_dtype, "points", "columns")),
)
_TABLE_GRADIENT = Kernel(
    "hash_encode", "hash_encode_table_gradient", _ADDED, _FLOATS, accumulates=True
)
_TABLE_UNITS = Kernel(
    "hash_encode",
    "hash_encode_table_units",
    Signature(**_ADDED, per_unit=(mx.float32, "levels")),
    _UNITS,
    accumulates=True,
)
_TABLE_FLOATS = Kernel(
    "hash_encode",
    "hash_encode_table_floats",
    Signature(**_UNITS, unit=(mx.float32, "levels"), shapes=_LEVELS["shapes"]),
    _FLOATS,
)
_POSITION_GRADIENT = Kernel(
    "hash_encode",
    "hash_encode_position_gradient",
    Signature(**_POSITIONS, **_TABLE, **_GRADIENT, **_LEVELS),
    Signature(position_gradient=_TAKES["positions"]),
)


@dataclass(frozen=True)
class HashLevels:
    """Resolutions and table sizes of the levels of a hash encoding."""

    levels: int  # number of levels
    log2_entries: int  # base-2 logarithm of the maximum number of entries per level
    coarsest: int  # number of cells along an axis at level 0
    growth: float  # ratio of the resolutions of consecutive levels
    extent: float = 1.0  # side length of the cube that the grids cover, with the center 0.5

    @cached_property
    def scales(self) -> tuple[float, ...]:
        """Scale of each level: number of grid units along a side of the cube."""
        return tuple(self.coarsest * self.growth**level - 1.0 for level in range(self.levels))

    @cached_property
    def grids(self) -> tuple[tuple[float, float], ...]:
        """For each level, the scale and the offset that map a position to grid coordinates."""
        lowest = SCENE_CENTER - 0.5 * self.extent
        per_unit = [scale / self.extent for scale in self.scales]
        return tuple((scale, 0.5 - scale * lowest) for scale in per_unit)

    @cached_property
    def shapes(self) -> tuple[tuple[int, int, int], ...]:
        """For each level, the number of vertices along an axis, the index of the first table entry,
        and the number of table entries."""
        shapes, first = [], 0
        for scale in self.scales:
            vertices = ceil(scale) + 1
            entries = min((vertices**3 + 7) // 8 * 8, 2**self.log2_entries)
            shapes.append((vertices, first, entries))
            first += entries
        return tuple(shapes)

    @property
    def entries(self) -> int:
        """Total number of entries of all levels."""
        return self.shapes[-1][1] + self.shapes[-1][2]

    def arrays(self) -> tuple[mx.array, mx.array]:
        """Return the description of the levels that kernels read.

        Returns:
            `grids` (levels, 2) float32, and a flat uint32 array that contains the number of levels
            followed by `shapes`.
        """
        numbers = [number for shape in self.shapes for number in shape]
        return mx.array(self.grids, mx.float32), mx.array([self.levels, *numbers], mx.uint32)

    def parts(self, most: int) -> list[range]:
        """Divide the levels into as few parts as possible.

        Args:
            most: Maximum number of levels in a part.

        Returns:
            Ranges of consecutive levels, of almost equal lengths.
        """
        size = -(-self.levels // -(-self.levels // most))
        return [range(i, min(i + size, self.levels)) for i in range(0, self.levels, size)]

    def is_hashed(self, level: int) -> bool:
        """Return whether several vertices of a level may share a table entry.

        Args:
            level: Index of the level.

        Returns:
            True if the level has more vertices than entries.
        """
        vertices, _, entries = self.shapes[level]
        return vertices**3 > entries

    def rows_in(self, smaller: "HashLevels") -> mx.array:
        """Return the rows of a smaller table for the same grids, which represent the same features
        except in the last half cell of levels that are no longer hashed.

        A hash modulo a smaller power of two is the hash of the smaller table, so a hashed level
        repeats its rows.

        Args:
            smaller: Levels with a smaller `log2_entries` and otherwise the same values.

        Returns:
            Row of the smaller table for each row of this table, uint32 (entries,).
        """
        rows = []
        for level, (vertices, _, entries) in enumerate(self.shapes):
            row = mx.arange(entries, dtype=mx.uint32)
            _, first, size = smaller.shapes[level]
            if not self.is_hashed(level):
                vertex = [row % vertices, row // vertices % vertices, row // vertices**2]
                rows.append(_entry(mx.stack(vertex, axis=1), level, smaller))
            else:
                rows.append(first + row % size)
        return mx.concatenate(rows)


def hash_encode(
    positions: mx.array, table: mx.array, levels: HashLevels, used: mx.array | None = None
) -> mx.array:
    """Encode positions: interpolate table entries at every level, and concatenate the features.

    At each level, a position with the unit coordinate u in the cube has the grid coordinate
    u * scale + 0.5. The features of the 8 surrounding vertices are interpolated trilinearly.

    Args:
        positions: (points, 3) float32, inside the cube with the side length `levels.extent` and the
            center (0.5, 0.5, 0.5). For positions outside the cube, vertex indices wrap around.
        table: (levels.entries, features) float32. On a GPU, float16 is also supported. The number
            of features is 1, 2, 4, or 8.
        levels: Resolutions and table sizes of the levels.
        used: (1,) int32, number of valid points at the start of `positions`, or None if all points
            are valid. The features of the other points are arbitrary and have no gradient.

    Returns:
        Features (points, levels.levels * features), float16 on a GPU and float32 on a CPU. The
        features are differentiable with respect to `positions` and `table`.

    Raises:
        InputError: If a shape or type is wrong.

    Examples:
        The first level has 2 vertices along each axis and the second level has 4, so the table has
        8 + 64 rows. The first feature of each row is the index of the row, and the second feature
        is 1. The first point is exactly at a vertex of both levels. These vertices have the rows 7
        and 50. The second point is at a cell center of both levels, so its features are the mean of
        8 rows.

        >>> from nerfmac.ops.hash_encode import HashLevels, hash_encode
        >>> levels = HashLevels(levels=2, log2_entries=6, coarsest=2, growth=2.0)
        >>> levels.shapes  # vertices along an axis, first row, number of rows
        ((2, 0, 8), (4, 8, 64))
        >>> table = mx.stack([mx.arange(72.0), mx.ones(72)], axis=1)
        >>> hash_encode(mx.array([[0.5, 0.5, 0.5], [0.0, 0.0, 0.0]]), table, levels)
        array([[7, 1, 50, 1],
               [3.5, 1, 18.5, 1]], dtype=float32)
    """
    used = mx.array(positions.shape[:1], mx.int32) if used is None else used
    _TAKES.check(positions, table, used, entries=levels.entries)
    return _hash_encode(positions, table, used, levels=levels)


def hash_encode_reference(positions: mx.array, table: mx.array, levels: HashLevels) -> mx.array:
    """Reference implementation of `hash_encode` in plain MLX. The argument `used` is missing,
    because all points are encoded."""
    encoded = []
    for level, (scale, offset) in enumerate(levels.grids):
        place = positions * mx.array(scale, mx.float32) + mx.array(offset, mx.float32)
        lowest = mx.floor(place)
        fraction = place - lowest
        corner = mx.stop_gradient(lowest).astype(mx.int32).astype(mx.uint32)
        total = mx.zeros((positions.shape[0], table.shape[1]), mx.float32)
        for which in range(8):
            upper = mx.array([which >> axis & 1 for axis in range(3)], mx.uint32)
            weight = mx.where(upper == 1, fraction, 1.0 - fraction).prod(axis=1, keepdims=True)
            total = total + weight * table[_entry(corner + upper, level, levels)]
        encoded.append(total)
    return mx.concatenate(encoded, axis=1)


def _entry(vertex: mx.array, level: int, levels: HashLevels) -> mx.array:
    vertices, first, entries = levels.shapes[level]
    x, y, z = (vertex[:, axis] for axis in range(3))
    if levels.is_hashed(level):
        index = (
            x ^ (y * mx.array(HASH_PRIME_Y, mx.uint32)) ^ (z * mx.array(HASH_PRIME_Z, mx.uint32))
        )
    else:
        size = mx.array(vertices, mx.uint32)
        index = x + size * (y + size * z)
    return (index % entries + first).astype(mx.uint32)


def _used_reference(
    positions: mx.array, table: mx.array, used: mx.array, *, levels: HashLevels
) -> mx.array:
    is_used = (mx.arange(positions.shape[0]) < used)[:, None]
    # Points after the first `used` points may be NaN.
    encoded = hash_encode_reference(mx.where(is_used, positions, 0.0), table, levels)
    return mx.where(is_used, encoded, 0.0).astype(working_dtype())


@operation("hash_encode", _used_reference)
def _hash_encode(
    positions: mx.array, table: mx.array, used: mx.array, *, levels: HashLevels
) -> list[mx.array]:
    points, features = positions.shape[0], table.shape[1]
    return _FORWARD(
        *(positions, table.astype(working_dtype()), *levels.arrays(), used),
        grid=(points, levels.levels, 1),
        template=[("FEATURES", features)],
        columns=levels.levels * features,
    )


@_hash_encode.vjp
def _hash_encode_vjp(primals, cotangent, _output, *, levels):  # type: ignore[no-untyped-def]
    positions, table, used = primals
    if cotangent.size < DEVICE_SIZE:  # the kernels read its rows from `device` memory
        cotangent = mx.pad(cotangent, [(0, DEVICE_SIZE), (0, 0)])
    # MLX evaluates only arrays that are used, so it does not compute an unused gradient.
    d_table = _table_gradient(positions, cotangent, used, levels, table.shape[1])
    (d_positions,) = _POSITION_GRADIENT(
        *(positions, table.astype(working_dtype()), cotangent, *levels.arrays(), used),
        grid=(positions.shape[0], 1, 1),
        template=[("FEATURES", table.shape[1])],
    )
    return d_positions, d_table, mx.zeros_like(used)


_SHORTEST = {"float": 3, "summed": 1, "fixed": 3}
"""Threshold on the mean number of consecutive samples in the same cell, for each variant of the
gradient kernel. From this threshold on, the kernel sums the gradients of consecutive samples before
it adds the sum to the table."""


def _table_gradient(
    positions: mx.array, cotangent: mx.array, used: mx.array, levels: HashLevels, features: int
) -> mx.array:
    """Return the gradient of the table, float32 (levels.entries, features)."""
    chosen = variant("hash_encode_gradient")
    template = [("FEATURES", features), ("SHORTEST", _SHORTEST[chosen])]
    kernel, units = _TABLE_GRADIENT, []
    if chosen == "fixed":
        per_unit, unit = _units(cotangent, used, levels.levels)
        kernel, units = _TABLE_UNITS, [per_unit]
    points, summed = -(-positions.shape[0] // simd_width()) * simd_width(), []
    per_level = max(points, 1) * CORNERS * features
    most = additions_per_launch(floats=chosen != "fixed") / per_level
    for part in levels.parts(int(max(1, min(most, levels.levels)))):
        first, entries = levels.shapes[part.start][1], sum(levels.shapes[i][2] for i in part)
        summed += kernel(
            *(positions, cotangent, *levels.arrays(), used),
            mx.array([part.start, first], mx.uint32),
            *units,
            grid=(points, len(part), 1),
            template=template,
            entries=entries,
            features=features,
        )
    whole = summed[0] if len(summed) == 1 else mx.concatenate(summed)
    if chosen != "fixed":
        return whole
    arrays = whole, unit, levels.arrays()[1]
    (floats,) = _TABLE_FLOATS(*arrays, grid=(levels.entries, 1, 1), template=template[:1])
    return floats


def _units(cotangent: mx.array, used: mx.array, levels: int) -> tuple[mx.array, mx.array]:
    """Return the fixed-point scale 1 / unit and the unit for each level's gradient, as float32
    arrays (levels,).

    The unit is the smallest power of two for which the absolute gradients of all points sum to less
    than 2^30 units. No table entry can have a larger sum, because interpolation weights are at most
    1. If the sum is not finite, the unit is NaN, and so is the gradient of the whole level.
    """
    is_used = (mx.arange(cotangent.shape[0]) < used)[:, None]
    size = mx.abs(mx.where(is_used, cotangent, 0.0).astype(mx.float32)).sum(axis=0)
    size = size.reshape(levels, -1).max(axis=1)
    exponent = (mx.view(size, mx.uint32) >> 23).astype(mx.int32)  # biased by 127, as in float32
    one_over = mx.clip(283 - exponent, 1, 252)
    per_unit, unit = (
        mx.view(each.astype(mx.uint32) << 23, mx.float32) for each in (one_over, 254 - one_over)
    )
    return per_unit, mx.where(mx.isfinite(size), unit, float("nan"))
