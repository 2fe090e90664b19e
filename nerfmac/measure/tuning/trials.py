"""What the variants are tried on: operations with the sizes and the like of the data of training.

Positions matter, since neighbouring samples of a ray share cells of the encoding. So rays from
around meet a thick shell in an otherwise empty grid, and samples are what marching finds there. A
third of the samples has no gradient, as those behind a surface; the others' differ by orders of
magnitude.

Nothing here picks elements by an index, not even one of several random keys: on CUDA MLX would
compile a kernel for that, and the user wait for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import mlx.core as mx

from nerfmac.backend import Arrays, working_dtype
from nerfmac.config import Config
from nerfmac.fields.encodings import HashGrid
from nerfmac.geometry.samples import Samples
from nerfmac.measure.selftest.comparison import Case
from nerfmac.ops.hash_encode import hash_encode
from nerfmac.ops.march import MarchGeometry, cell_of, count_samples, march
from nerfmac.ops.networks import networks
from nerfmac.ops.networks_shape import BASIS, NetworksShape
from nerfmac.ops.occupancy_update import pack_bits, splat
from nerfmac.sampling.occupancy import march_geometry

SAMPLES_PER_RAY = 8
"""About as many as light reaches in an object, once the grid knows the empty cells."""
RADIUS, THICKNESS = 0.3, 0.03
"""Of the shell."""


class Trial(NamedTuple):
    """An operation that has variants, with inputs; the case computes what they must agree on."""

    variants: str
    """Its name in `nerfmac.backend.variants`."""
    case: Case


def trials(config: Config, extent: float) -> Iterator[Trial]:
    """A trial for each operation that has variants, with `config` in a scene of side `extent`."""
    geometry, slots = march_geometry(config, extent), config.train.slots
    rays = max(slots // SAMPLES_PER_RAY, 1)
    bits = _shell(geometry)
    given = *_rays(rays), bits, geometry
    mx.eval(given[:4])

    def counted() -> Arrays:
        return {"counts": count_samples(*given)}

    # A sample on a cell's face may be in either.
    yield Trial("march_count", Case("march", "tuning", counted, 1, outliers=0.001))
    samples = march(*given, slots)
    mx.eval(samples)
    yield _encoding(config, extent, samples)
    case = _networks(config, samples, rays)
    yield Trial("networks_gradient", case)
    yield Trial("networks_gradient_rows", case)


def _rays(count: int) -> tuple[mx.array, mx.array, mx.array]:
    """Origins around the scene, directions into the shell, jitter."""
    around, inside, along = mx.random.split(mx.random.key(21), 3)
    origins = _directions(count, around) * 1.6 + 0.5
    targets = 0.5 + 0.9 * RADIUS * mx.random.uniform(-1, 1, (count, 3), key=inside)
    directions = targets - origins
    directions = directions / mx.linalg.norm(directions, axis=1, keepdims=True)
    return origins, directions, mx.random.uniform(shape=(count,), key=along)


def _directions(count: int, key: mx.array) -> mx.array:
    drawn = mx.random.normal((count, 3), key=key)
    return drawn / mx.linalg.norm(drawn, axis=1, keepdims=True)


def _shell(geometry: MarchGeometry) -> mx.array:
    """The occupancy bits of a grid in which only a shell is occupied."""
    away, around = mx.random.split(mx.random.key(22))
    points = 4 * geometry.resolution**2
    radius = RADIUS + THICKNESS * mx.random.uniform(-0.5, 0.5, (points, 1), key=away)
    cells = cell_of(0.5 + radius * _directions(points, around), geometry)
    values = splat(cells, mx.ones(points), geometry.cells)
    return pack_bits(values, mx.array([0.5]))


def _slopes(shape: tuple[int, ...], seed: int) -> mx.array:
    """Gradients of samples, the rows: a third is zero, the others differ by orders of magnitude."""
    size, seen, value = mx.random.split(mx.random.key(seed), 3)
    sizes = mx.exp(1.5 * mx.random.normal((shape[0], 1), key=size))
    is_seen = mx.random.uniform(shape=(shape[0], 1), key=seen) < 2 / 3
    return mx.where(is_seen, sizes * mx.random.normal(shape, key=value), 0.0)


def _encoding(config: Config, extent: float, samples: Samples) -> Trial:
    grid = HashGrid(config.grid, extent)
    table = grid.init(mx.random.key(23))["table"]
    positions = mx.clip((samples.position - 0.5) / extent + 0.5, 0.0, 1.0)
    slopes = _slopes((positions.shape[0], grid.outputs), 24).astype(working_dtype())
    mx.eval(positions, table, slopes)

    def run() -> Arrays:
        def encode(table: mx.array) -> mx.array:
            return hash_encode(positions, table, grid.levels, samples.used)

        # The encoding itself is not evaluated, as nothing needs it.
        return {"d table": mx.vjp(encode, [table], [slopes])[1][0]}

    return Trial("hash_encode_gradient", Case("hash_encode", "tuning", run, 512, half_terms=1))


def _networks(config: Config, samples: Samples, rays: int) -> Case:
    inputs, widths = config.grid.levels * config.grid.features, config.networks
    layers = widths.density_layers, widths.colour_layers
    shape = NetworksShape(inputs, widths.width, *layers, widths.thinness)
    slots = samples.position.shape[0]
    of_features, of_basis, *others = mx.random.split(mx.random.key(25), 4)
    features = mx.random.normal((slots, inputs), key=of_features).astype(working_dtype())
    basis = mx.random.normal((rays, BASIS), key=of_basis)
    weights = [
        widths.width**-0.5 * mx.random.normal((each.weights,), key=key)
        for each, key in zip((shape.density, shape.colour), others, strict=True)
    ]
    slopes = [_slopes((slots, 1), 26).reshape(-1), _slopes((slots, 3), 27)]
    mx.eval(features, basis, weights, slopes)

    def run() -> Arrays:
        def evaluate(*arrays: mx.array) -> list[mx.array]:
            features, density, colour = arrays
            given = basis, samples.ray, samples.used, density, colour
            return list(networks(features, *given, shape))

        found = mx.vjp(evaluate, [features, *weights], slopes)[1]
        return dict(zip(("d features", "d density", "d colour"), found, strict=True))

    return Case("networks", "tuning", run, 512, half_terms=8)
