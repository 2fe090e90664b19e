"""Rays, grids and geometries for the tests of marching and of the samples it packs."""

from math import sqrt

import mlx.core as mx
import numpy as np

from nerfmac.geometry.bounds import Bounds
from nerfmac.ops.march import MarchGeometry, Occupied, march
from tests.bricks import in_bricks

GEOMETRIES = {
    "object": MarchGeometry(Bounds(1.0), 16, 0.05, sqrt(3) / 256, 0.0),
    "scene": MarchGeometry(Bounds(4.0), 16, 0.1, sqrt(3) / 128, 1 / 32),
    "odd": MarchGeometry(Bounds(3.0), 16, 0.05, sqrt(3) / 128, 1 / 64),
    "small": MarchGeometry(Bounds(0.6), 16, 0.2, sqrt(3) / 256, 0.0),
}
PLENTY = 60_000  # slots


def grid(geometry: MarchGeometry, filled: float) -> np.ndarray:
    """Occupied cells, bool (cascade, z, y, x)."""
    shape = (geometry.bounds.cascades, *[geometry.resolution] * 3)
    return np.random.default_rng(4).random(shape) < filled


def packed(is_set: np.ndarray) -> mx.array:
    """The bits of cells, bool (cascade, z, y, x)."""
    return words(in_bricks(is_set))


def words(is_set: np.ndarray) -> mx.array:
    """The bits of cells, bool (cells,), in the order of their numbers."""
    return mx.array(np.packbits(is_set, bitorder="little").view(np.uint32))


def some_rays(geometry: MarchGeometry, count: int = 150) -> tuple[np.ndarray, ...]:
    """Origins inside and outside the cube, unit directions toward its inside, jitter."""
    random = np.random.default_rng(count)
    origins = 0.5 + geometry.bounds.extent * random.uniform(-0.9, 1.1, (count, 3))
    directions = 0.5 + geometry.bounds.extent * random.uniform(-0.45, 0.4, (count, 3)) - origins
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    rays = origins, directions, random.uniform(0.0, 1.0, count)
    return tuple(each.astype(np.float32) for each in rays)


def run(rays, is_set, geometry, slots=PLENTY) -> dict[str, np.ndarray]:
    arrays = [mx.array(np.asarray(each, np.float32)) for each in rays]
    samples = march(*arrays, Occupied(geometry, packed(is_set)), slots)
    named = samples._asdict() | {"fits": samples.fits}
    return {name: np.array(values) for name, values in named.items()}
