"""Arrays similar to those in a training step, for timing operations and their variants. Neighboring
samples share cells of the encoding, because rays are marched through an occupied shell. This module
does not index arrays, because MLX would compile a kernel for indexing on CUDA."""

from __future__ import annotations

import mlx.core as mx

from nerfmac.common.constants import DIRECTION_FEATURES
from nerfmac.config import Config
from nerfmac.fields.encodings import HashGrid
from nerfmac.geometry.bounds import Bounds
from nerfmac.ops.march import MarchGeometry, Occupied, cell_of, march
from nerfmac.ops.networks_shape import NetworksShape
from nerfmac.ops.occupancy_update import pack_bits, splat
from nerfmac.sampling.occupancy import march_geometry

SAMPLES_PER_RAY = 8  # Visible samples per ray, about as halfway through training.
RADIUS, THICKNESS = 0.3, 0.03  # Radius and thickness of the shell, in scene units.


class StepInputs:
    """Evaluated arrays similar to those in a training step, for a scene cube of side `extent`."""

    def __init__(self, config: Config, extent: float = 1.0) -> None:
        self.slots, widths = config.march.max_samples, config.networks
        self.rays = rays = max(self.slots // SAMPLES_PER_RAY, 1)
        bounds = Bounds(extent)
        self.geometry = march_geometry(config.march, config.occupancy, bounds)
        self.grid = HashGrid(config.grid, bounds)
        layers = widths.density_layers, widths.color_layers
        self.shape = NetworksShape(self.grid.outputs, widths.width, *layers, widths.density_bias)
        around, inside, along = mx.random.split(mx.random.key(21), 3)
        origins = _directions(rays, around) * 1.6 + 0.5
        targets = 0.5 + 0.9 * RADIUS * mx.random.uniform(-1, 1, (rays, 3), key=inside)
        directions = targets - origins
        directions = directions / mx.linalg.norm(directions, axis=1, keepdims=True)
        jitter = mx.random.uniform(shape=(rays,), key=along)
        self.marched = origins, directions, jitter, _shell(self.geometry)
        self.samples = march(*self.marched, self.slots)
        low, high = (mx.array(corner, mx.float32) for corner in bounds.corners)
        self.positions = mx.clip(self.samples.position, low, high)
        self.table = self.grid.init(mx.random.key(23))["table"]
        of_features, of_basis, *others = mx.random.split(mx.random.key(25), 4)
        self.features = mx.random.normal((self.slots, self.shape.features), key=of_features)
        self.basis = mx.random.normal((rays, DIRECTION_FEATURES), key=of_basis)
        self.weights = [
            widths.width**-0.5 * mx.random.normal((network.weights,), key=key)
            for network, key in zip((self.shape.density, self.shape.color), others, strict=True)
        ]
        samples = self.samples[:-1]  # without the thinning
        mx.eval(self.marched[:3], self.marched[3].bits, samples, self.positions, self.table)
        mx.eval(self.features, self.basis, self.weights)


def slopes(shape: tuple[int, ...], seed: int) -> mx.array:
    """Return random gradients, one row per sample. One third of the rows are zero, and the other
    rows differ by orders of magnitude."""
    size, seen, value = mx.random.split(mx.random.key(seed), 3)
    sizes = mx.exp(1.5 * mx.random.normal((shape[0], 1), key=size))
    is_seen = mx.random.uniform(shape=(shape[0], 1), key=seen) < 2 / 3
    return mx.where(is_seen, sizes * mx.random.normal(shape, key=value), 0.0)


def _directions(count: int, key: mx.array) -> mx.array:
    vectors = mx.random.normal((count, 3), key=key)
    return vectors / mx.linalg.norm(vectors, axis=1, keepdims=True)


def _shell(geometry: MarchGeometry) -> Occupied:
    """Return an occupancy grid with only the shell occupied."""
    away, around = mx.random.split(mx.random.key(22))
    points = 4 * geometry.resolution**2
    radius = RADIUS + THICKNESS * mx.random.uniform(-0.5, 0.5, (points, 1), key=away)
    cells = cell_of(0.5 + radius * _directions(points, around), geometry)
    bits = pack_bits(splat(cells, mx.ones(points), geometry.cells), mx.array([0.5]))
    return Occupied(geometry, bits)
