"""Cases of what a field computes: its networks, and whole rays traced through it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import mlx.core as mx

from nerfmac.backend import kernels_disabled, runs_kernel, working_dtype
from nerfmac.ops.hash_encode import HashLevels
from nerfmac.ops.march import MarchGeometry
from nerfmac.ops.networks import NetworksShape, networks, networks_density
from nerfmac.ops.occupancy_update import pack_bits
from nerfmac.ops.trace import TraceGeometry, trace
from nerfmac.selftest.comparison import Arrays, Case, with_gradients
from nerfmac.selftest.rays import drawn_rays


def networks_cases() -> Iterator[Case]:
    """Both networks together and the density alone; a fifth of the slots is unused."""
    shapes = {
        "base": NetworksShape(32, 64, 1, 2),
        "small": NetworksShape(32, 32, 1, 1),
        "tiny": NetworksShape(16, 32, 1, 1),
        "narrow": NetworksShape(64, 16, 1, 2),
        "wide": NetworksShape(128, 128, 1, 2),
        "deep": NetworksShape(32, 64, 4, 4),
        "deeper": NetworksShape(48, 64, 3, 3),
        "twice": NetworksShape(32, 64, 2, 2),
        "flat": NetworksShape(32, 64, 1, 1),
        "thrice": NetworksShape(32, 64, 3, 3),
        **{f"of-{features}": NetworksShape(features, 64, 1, 2) for features in (16, 64, 128)},
        **{f"width-{width}": NetworksShape(32, width, 1, 2) for width in (16, 32, 128)},
    }
    for name, shape in shapes.items():
        for slots in (1, 31, 700) if name in ("base", "tiny") else (129,):

            def run(shape: NetworksShape = shape, slots: int = slots) -> Arrays:
                return _networks(shape, slots)

            yield Case("networks", f"{name}-{slots}", run, 256, half_terms=8)


def _networks(shape: NetworksShape, slots: int) -> Arrays:
    keys = mx.random.split(mx.random.key(slots), 4)
    used = slots - slots // 5
    is_used = mx.arange(slots) < used
    rays = slots // 7 + 1
    ray = (mx.arange(slots) // 7).astype(mx.int32)
    basis = mx.random.normal((rays, 16), key=keys[0])
    # The inputs are exact in half precision, so that only computed values are rounded.
    sizes = {"features": (slots, shape.features), "density": (shape.density.weights,)}
    sizes["colour"] = (shape.colour.weights,)
    spread = {"features": 1.0, "density": shape.width**-0.5, "colour": shape.width**-0.5}
    arguments = {
        name: (spread[name] * mx.random.normal(size, key=key)).astype(mx.float16).astype(mx.float32)
        for (name, size), key in zip(sizes.items(), keys[1:], strict=True)
    }

    def evaluate(features: mx.array, density: mx.array, colour: mx.array) -> list[mx.array]:
        features = features.astype(working_dtype())
        count = mx.array([used], mx.int32)
        seen = networks(features, basis, ray, count, density, colour, shape)
        return [mx.where(is_used, seen[0], 0.0), mx.where(is_used[:, None], seen[1], 0.0)]

    with _exact_products():
        features = arguments["features"].astype(working_dtype())
        weights = arguments["density"], arguments["colour"]
        alone = networks_density(features, *weights, shape)
        return {"density alone": alone, **with_gradients(evaluate, **arguments)}


def _exact_products() -> AbstractContextManager[Any]:
    """A GPU's matrix products may round to ten bits (TF32); the reference's are the CPU's."""
    return nullcontext() if runs_kernel("networks") else mx.stream(mx.cpu)


_GRIDS = ((2, 8), (4, 4), (4, 8), (16, 1), (16, 2), (16, 4), (16, 8), (32, 1), (32, 2), (32, 4))
"""Levels and features, besides those of the cases with names."""


def trace_cases() -> Iterator[Case]:
    """Rays through a small field of random weights."""
    cube = MarchGeometry(1.0, 16, 0.05, 3**0.5 / 128, 0.0)
    scene = MarchGeometry(4.0, 16, 0.1, 3**0.5 / 128, 1 / 64)
    fields = {
        "object": (cube, HashLevels(8, 12, 8, 1.5), 4, 64, (1, 2)),
        "scene": (scene, HashLevels(8, 12, 8, 1.5), 2, 32, (1, 1)),
        "wide": (cube, HashLevels(16, 10, 8, 1.2), 8, 128, (1, 2)),
        "deep": (scene, HashLevels(16, 10, 8, 1.2), 1, 16, (4, 4)),
    }
    # Each of the grids, widths and depths that can be asked for has a kernel of its own.
    others = {
        f"{levels}x{features}": (cube, HashLevels(levels, 10, 8, 1.2), features, 64, (1, 2))
        for levels, features in _GRIDS
    }
    others["small"] = (cube, HashLevels(8, 10, 8, 1.2), 4, 32, (1, 1))
    for width in (16, 32, 128):
        others[f"width-{width}"] = (cube, HashLevels(8, 10, 8, 1.2), 4, width, (1, 2))
    for depth in (1, 2, 3, 4):
        others[f"layers-{depth}"] = (cube, HashLevels(8, 10, 8, 1.2), 4, 64, (depth, depth))
    for name, (march, levels, features, width, layers) in (fields | others).items():
        shape = NetworksShape(levels.levels * features, width, *layers)
        geometry = TraceGeometry(march, levels, shape)
        many = ((2, 0.3), (960, 0.02), (70, 1.0), (33, 0.0)) if name in fields else ((33, 0.3),)
        for count, filled in ((1, 0.3), *many):

            def run(
                geometry: TraceGeometry = geometry,
                features: int = features,
                count: int = count,
                filled: float = filled,
            ) -> Arrays:
                return _trace(geometry, features, count, filled)

            # Half precision also rounds the logarithm of the density.
            yield Case("trace", f"{name}-{count}-{filled}", run, 512, half_terms=16)


def _trace(geometry: TraceGeometry, features: int, count: int, filled: float) -> Arrays:
    keys = mx.random.split(mx.random.key(count), 4)
    origins, directions, _ = drawn_rays(count, geometry.march.extent)
    width = 24 if count % 96 == 0 else 0
    drawn = mx.random.uniform(shape=(geometry.march.cells,), key=keys[0])
    shape = geometry.networks
    table, density, colour = (
        (spread * mx.random.normal(size, key=key)).astype(mx.float16).astype(mx.float32)
        for spread, size, key in (
            (1.0, (geometry.levels.entries, features), keys[1]),
            (1.5 * shape.width**-0.5, (shape.density.weights,), keys[2]),
            (shape.width**-0.5, (shape.colour.weights,), keys[3]),
        )
    )
    with kernels_disabled():  # packing has its own cases
        bits = pack_bits((drawn < filled).astype(mx.float32), mx.array([0.5]))
    with _exact_products():
        seen = trace(origins, directions, bits, geometry, table, density, colour, width)
    return {"colour": seen.colour, "opacity": seen.opacity, "depth": seen.depth}
