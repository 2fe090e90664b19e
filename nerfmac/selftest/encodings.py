"""Cases of the encodings: positions' and directions'."""

from __future__ import annotations

from collections.abc import Iterator

import mlx.core as mx

from nerfmac.ops.hash_encode import HashLevels, hash_encode
from nerfmac.ops.spherical_harmonics import spherical_harmonics
from nerfmac.selftest.comparison import Arrays, Case, with_gradients


def _points(count: int, low: float, high: float) -> mx.array:
    points = mx.random.uniform(low, high, (count, 3), key=mx.random.key(count))
    # The border itself, where an index may leave the table.
    corners = mx.array([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 0.5], [1.0, 0.25, 1.0]])
    return mx.concatenate([corners, points])[:count] if count > 4 else points


def hash_encode_cases() -> Iterator[Case]:
    """Points inside, on and outside the border; every number of features."""
    grids = {
        "dense": (HashLevels(2, 16, 4, 2.0), 4),
        "base": (HashLevels(8, 19, 16, 2.0), 4),
        "small": (HashLevels(8, 15, 16, 1.81), 4),
        "sixteen": (HashLevels(16, 14, 16, 1.38), 2),
        "single": (HashLevels(16, 12, 16, 1.3), 1),
        "eight": (HashLevels(2, 12, 16, 2.0), 8),
        "four": (HashLevels(4, 12, 16, 2.0), 4),
        "eight-of-four": (HashLevels(4, 12, 16, 2.0), 8),
        "eight-of-sixteen": (HashLevels(16, 12, 16, 1.3), 8),
    }
    used = 700  # of the largest number of points
    for name, (levels, features) in grids.items():
        table = mx.random.normal((levels.entries, features), key=mx.random.key(1))
        for count, low, high in ((1, 0.0, 1.0), (3, 0.0, 1.0), (1031, 0.0, 1.0), (517, -0.7, 1.6)):
            positions = _points(count, low, high)

            def run(
                positions: mx.array = positions,
                table: mx.array = table,
                levels: HashLevels = levels,
            ) -> Arrays:
                def encode(positions: mx.array, table: mx.array) -> list[mx.array]:
                    count = mx.array([used])
                    encoded = hash_encode(positions, table, levels, count)[:used]
                    return [encoded.astype(mx.float32)]

                return with_gradients(encode, positions=positions, table=table)

            where = "outside" if low < 0 else "inside"
            # At a cell's face the gradient jumps, and so may features do outside the cube. The
            # finest level's place in its cell is known to 2^-24 of its thousands of cells.
            share = 0.02 if count > 100 else 0.0
            terms = 64 if levels.log2_entries < 19 else 512
            yield Case("hash_encode", f"{name}-{where}-{count}", run, terms, share, half_terms=1)


def spherical_harmonics_cases() -> Iterator[Case]:
    """Unit directions."""
    for count in (1, 2, 257):
        directions = mx.random.normal((count, 3), key=mx.random.key(count))
        directions = directions / mx.linalg.norm(directions, axis=1, keepdims=True)

        def run(directions: mx.array = directions) -> Arrays:
            return with_gradients(lambda d: [spherical_harmonics(d)], directions=directions)

        yield Case("spherical_harmonics", str(count), run, 16)
