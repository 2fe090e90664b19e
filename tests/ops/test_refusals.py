"""Every operation refuses an array of a wrong shape or type by its name."""

import mlx.core as mx
import pytest

from nerfmac import Bounds, InputError, Rays, Samples
from nerfmac.ops.composite import composite
from nerfmac.ops.expose import expose
from nerfmac.ops.hash_encode import HashLevels, hash_encode
from nerfmac.ops.huber import huber
from nerfmac.ops.march import MarchGeometry, Occupied, march
from nerfmac.ops.masked_mean import masked_mean
from nerfmac.ops.networks import NetworksShape, networks, networks_density
from nerfmac.ops.occupancy_update import RefreshRule, draw_points, pack_bits, refresh, splat
from nerfmac.ops.penalty import PenaltyWeights, penalties
from nerfmac.ops.spherical_harmonics import spherical_harmonics
from nerfmac.ops.trace import TraceGeometry, trace
from nerfmac.ops.uniform import uniform

pytestmark = pytest.mark.usefixtures("on_the_cpu")

RAYS, SLOTS = 3, 8
LEVELS = HashLevels(levels=8, log2_entries=8, coarsest=2, growth=1.5)
SHAPE = NetworksShape(16, 16, 1, 1)
CUBE = MarchGeometry(Bounds(1.0), resolution=16, near=0.1, step=0.1, cone=0.0)
TRACED = TraceGeometry(CUBE, LEVELS, SHAPE)
WEIGHTS = {
    "density_weights": mx.zeros(SHAPE.density.weights),
    "color_weights": mx.zeros(SHAPE.color.weights),
}
ALONG = {"origins": mx.zeros((RAYS, 3)), "directions": mx.zeros((RAYS, 3))}


def ints(*shape: int) -> mx.array:
    return mx.zeros(shape, mx.int32)


def uints(*shape: int) -> mx.array:
    return mx.zeros(shape, mx.uint32)


def composited(density, color, distances, widths, ray_start):
    position, ray = mx.zeros((SLOTS, 3)), ints(SLOTS)
    samples = Samples(position, distances, widths, ray, ray_start, ints(RAYS))
    return composite(density, color, samples)


def penalized(progress, tracks, ground, sensor):
    values = mx.zeros(SLOTS)
    samples = Samples(mx.zeros((SLOTS, 3)), values, values, ints(SLOTS), ints(RAYS + 1), ints(RAYS))
    return penalties(samples, progress, PenaltyWeights(), tracks, ground, sensor)


CALLS = {
    composited: {
        "density": mx.zeros(SLOTS),
        "color": mx.zeros((SLOTS, 3)),
        "distances": mx.zeros(SLOTS),
        "widths": mx.zeros(SLOTS),
        "ray_start": ints(RAYS + 1),
    },
    penalized: {
        "progress": mx.zeros(1),
        "tracks": mx.zeros((2, 3)),
        "ground": mx.zeros(RAYS),
        "sensor": mx.zeros((RAYS, 2)),
    },
    expose: {
        "color": mx.zeros((RAYS, 3)),
        "opacity": mx.zeros(RAYS),
        "logarithms": mx.zeros((2, 3)),
        "view": ints(RAYS),
        "background": mx.zeros((RAYS, 3)),
    },
    lambda **arrays: hash_encode(**arrays, levels=LEVELS): {
        "positions": mx.zeros((RAYS, 3)),
        "table": mx.zeros((LEVELS.entries, 2)),
        "used": ints(1),
    },
    lambda predicted, target: huber(predicted, target, 0.1): {
        "predicted": mx.zeros((RAYS, 3)),
        "target": mx.zeros((RAYS, 3)),
    },
    lambda jitter, bits, **rays: march(
        **rays, jitter=jitter, occupied=Occupied(CUBE, bits), slots=9
    ): {
        **ALONG,
        "jitter": mx.zeros(RAYS),
        "bits": uints(CUBE.cells // 32),
    },
    masked_mean: {"values": mx.zeros(RAYS), "mask": mx.zeros(RAYS), "scale": mx.zeros(1)},
    lambda **arrays: networks(**arrays, shape=SHAPE): {
        "features": mx.zeros((SLOTS, 16)),
        "basis": mx.zeros((RAYS, 16)),
        "ray": ints(SLOTS),
        "used": ints(1),
        **WEIGHTS,
    },
    lambda **arrays: networks_density(**arrays, shape=SHAPE): {
        "features": mx.zeros((SLOTS, 16)),
        **WEIGHTS,
    },
    lambda cells, estimates: splat(cells, estimates, 4): {
        "cells": ints(5),
        "estimates": mx.zeros(5),
    },
    pack_bits: {"values": mx.zeros(32), "threshold": mx.zeros(1)},
    lambda bits, draws: draw_points(bits, draws, 2, 16): {"bits": uints(8), "draws": uints(4, 2)},
    lambda **arrays: refresh(**arrays, rule=RefreshRule(0.9, 0.1, 8, False)): {
        "values": mx.zeros(5),
        "since_visible": ints(5),
        "peaks": mx.zeros(5),
        "is_visible": mx.zeros(5, mx.bool_),
        "updates": ints(1),
    },
    spherical_harmonics: {"directions": mx.zeros((RAYS, 3))},
    lambda origins, directions, bits, table, **weights: trace(
        Rays(origins, directions), bits, TRACED, table, **weights
    ): {
        **ALONG,
        "bits": uints(CUBE.cells // 32),
        "table": mx.zeros((LEVELS.entries, 2)),
        **WEIGHTS,
    },
    lambda key: uniform(4, key): {"key": uints(2)},
}
FLAT = {"progress", "scale"}  # numbers of any shape
FREE = {"ray_start", "values"}  # arrays that set the lengths of the others
CASES = [
    pytest.param(call, arrays, name, id=f"{number} {name}")
    for number, (call, arrays) in enumerate(CALLS.items())
    for name in arrays
]


@pytest.mark.parametrize(("call", "arrays", "name"), CASES)
def test_a_wrong_shape_or_type_is_refused_by_name(call, arrays, name):
    call(**arrays)
    given = arrays[name]
    columns = [] if name in FLAT else [given[..., None]]
    for wrong in (given.astype(mx.int16), *columns):
        with pytest.raises(InputError, match=f"^{name} "):
            call(**arrays | {name: wrong})
    if name not in FREE and "draws" not in arrays:
        axis = 0 if name == "table" else -1
        longer = mx.concatenate([given, given], axis=axis)
        with pytest.raises(InputError):  # about this array or another one along the axis
            call(**arrays | {name: longer})
