"""Test cases for the networks of a field and for tracing whole rays."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, NamedTuple

import mlx.core as mx

from nerfmac.app.measure.selftest.comparison import Arrays, Case, in_variant, with_gradients
from nerfmac.app.measure.selftest.rays import drawn_rays
from nerfmac.backend import kernels_disabled, runs_kernel, working_dtype
from nerfmac.backend.variants import VARIANTS
from nerfmac.geometry.bounds import Bounds
from nerfmac.geometry.rays import Rays
from nerfmac.ops.hash_encode import HashLevels
from nerfmac.ops.march import MarchGeometry
from nerfmac.ops.networks import networks, networks_density
from nerfmac.ops.networks_shape import NetworksShape
from nerfmac.ops.occupancy_update import pack_bits
from nerfmac.ops.trace import TraceGeometry, trace


def networks_cases() -> Iterator[Case]:
    """Yield test cases with both networks, and with the density network only. One fifth of the
    slots are unused."""
    shapes = {
        "base": NetworksShape(32, 64, 1, 2),
        "small": NetworksShape(32, 32, 1, 1, density_bias=2),
        "tiny": NetworksShape(16, 32, 1, 1, density_bias=2),
        "narrow": NetworksShape(64, 16, 1, 2),
        "narrowest": NetworksShape(16, 16, 2, 2),
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
            run = partial(_networks, shape, slots)
            case = Case("networks", f"{name}-{slots}", run, 256, half_terms=8)
            yield case
            if slots in (31, 129):  # each shape is a specialization
                yield in_variant(case, "networks_gradient_rows", "close")
            if (name, slots) == ("tiny", 700):
                for operation in ("networks_gradient", "networks_gradient_rows"):
                    for chosen in VARIANTS[operation].all:
                        yield in_variant(case, operation, chosen)


def _networks(shape: NetworksShape, slots: int) -> Arrays:
    keys = mx.random.split(mx.random.key(slots), 4)
    used = slots - slots // 5
    is_used = mx.arange(slots) < used
    rays = slots // 7 + 1
    ray = (mx.arange(slots) // 7).astype(mx.int32)
    basis = mx.random.normal((rays, 16), key=keys[0])
    # Features and weights are exact in float16, so only the basis and computed values are rounded.
    sizes = {"features": (slots, shape.features), "density": (shape.density.weights,)}
    sizes["color"] = (shape.color.weights,)
    spread = {"features": 1.0, "density": shape.width**-0.5, "color": shape.width**-0.5}
    arguments = {
        name: (spread[name] * mx.random.normal(size, key=key)).astype(mx.float16).astype(mx.float32)
        for (name, size), key in zip(sizes.items(), keys[1:], strict=True)
    }

    def evaluate(features: mx.array, density: mx.array, color: mx.array) -> list[mx.array]:
        features = features.astype(working_dtype())
        count = mx.array([used], mx.int32)
        seen = networks(features, basis, ray, count, density, color, shape)
        return [mx.where(is_used, seen[0], 0.0), mx.where(is_used[:, None], seen[1], 0.0)]

    with _exact_products():
        features = arguments["features"].astype(working_dtype())
        weights = arguments["density"], arguments["color"]
        alone = networks_density(features, *weights, shape, mx.array([used], mx.int32))
        alone = mx.where(is_used, alone, 0.0)
        return {"density alone": alone, **with_gradients(evaluate, **arguments)}


def _exact_products() -> AbstractContextManager[Any]:
    """Return a context manager that runs references on the CPU, because a GPU may compute in
    TF32."""
    return nullcontext() if runs_kernel("networks") else mx.stream(mx.cpu)


_GRIDS = ((2, 8), (4, 4), (4, 8), (16, 1), (16, 2), (16, 4), (16, 8), (32, 1), (32, 2), (32, 4))
"""Numbers of levels and of features per level, in addition to `_FIELDS`."""


class _Field(NamedTuple):
    """Small field with random weights."""

    march: MarchGeometry
    levels: HashLevels
    features: int  # number of features per level
    width: int
    layers: tuple[int, int]
    density_bias: int = 0

    @property
    def geometry(self) -> TraceGeometry:
        features = self.levels.levels * self.features
        shape = NetworksShape(features, self.width, *self.layers, self.density_bias)
        return TraceGeometry(self.march, self.levels, shape)

    def bits(self, filled: float, key: mx.array) -> mx.array:
        """Return random occupancy bits. Each bit is set with probability `filled`."""
        drawn = mx.random.uniform(shape=(self.march.cells,), key=key)
        with kernels_disabled():  # packing has separate cases
            return pack_bits((drawn < filled).astype(mx.float32), mx.array([0.5]))

    def parameters(self, contrast: float, keys: mx.array) -> tuple[mx.array, mx.array, mx.array]:
        """Return a random hash table and random weights of both networks. A larger `contrast`
        increases the variation of the densities."""
        shape = self.geometry.networks
        table, density, color = (
            (spread * mx.random.normal(size, key=key)).astype(mx.float16).astype(mx.float32)
            for spread, size, key in (
                (1.0, (self.levels.entries, self.features), keys[0]),
                (contrast * shape.width**-0.5, (shape.density.weights,), keys[1]),
                (shape.width**-0.5, (shape.color.weights,), keys[2]),
            )
        )
        return table, density, color


_CUBE = MarchGeometry(Bounds(1.0), 16, 0.05, 3**0.5 / 128, 0.0)
_SCENE = MarchGeometry(Bounds(4.0), 16, 0.1, 3**0.5 / 128, 1 / 64)
_FIELDS = {
    "object": _Field(_CUBE, HashLevels(8, 12, 8, 1.5), 4, 64, (1, 2)),
    "scene": _Field(_SCENE, HashLevels(8, 12, 8, 1.5), 2, 32, (1, 1), density_bias=2),
    "wide": _Field(_CUBE, HashLevels(16, 10, 8, 1.2), 8, 128, (1, 2)),
    "deep": _Field(_SCENE, HashLevels(16, 10, 8, 1.2), 1, 16, (4, 4)),
}


def _other_fields() -> dict[str, _Field]:
    """Return a field for each grid, network width, and network depth for which the kernel has a
    specialization."""
    eight, sixteen = (HashLevels(levels, 10, 8, 1.2) for levels in (8, 16))
    grids = {
        f"{levels}x{features}": _Field(_CUBE, HashLevels(levels, 10, 8, 1.2), features, 64, (1, 2))
        for levels, features in _GRIDS
    }
    widths = {f"width-{w}": _Field(_CUBE, sixteen, 2, w, (1, 2)) for w in (16, 32, 128)}
    depths = {f"layers-{d}": _Field(_CUBE, sixteen, 2, 64, (d, d)) for d in (1, 2, 3, 4)}
    small = {"small": _Field(_CUBE, eight, 4, 32, (1, 1), density_bias=2)}
    return grids | small | widths | depths


def trace_cases() -> Iterator[Case]:
    """Yield test cases with whole rays through occupancy grids from empty to full."""
    for name, field in (_FIELDS | _other_fields()).items():
        many = ((2, 0.3), (960, 0.02), (70, 1.0), (33, 0.0)) if name in _FIELDS else ((33, 0.3),)
        for count, filled in ((1, 0.3), *many):
            run = partial(_trace, field, count, filled)
            # Half precision also rounds the logarithm of the density.
            yield Case("trace", f"{name}-{count}-{filled}", run, 512, half_terms=16)


def _trace(field: _Field, count: int, filled: float) -> Arrays:
    keys = mx.random.split(mx.random.key(count), 4)
    origins, directions, _ = drawn_rays(count, field.march.bounds.extent)
    width = 24 if count % 96 == 0 else None
    bits, parameters = field.bits(filled, keys[0]), field.parameters(1.5, keys[1:])
    with _exact_products():
        seen = trace(Rays(origins, directions), bits, field.geometry, *parameters, width=width)
    return {"color": seen.color, "opacity": seen.opacity, "depth": seen.depth}
