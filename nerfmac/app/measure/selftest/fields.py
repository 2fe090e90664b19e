"""Test cases of the encodings and networks of a field, the optimizer, and tracing whole rays."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from math import inf, nan
from typing import Any, NamedTuple

import mlx.core as mx

from nerfmac.app.measure.selftest.comparison import Case, in_variant, with_gradients
from nerfmac.app.measure.selftest.rays import drawn_rays
from nerfmac.backend import VARIANTS, Arrays, kernels_disabled, runs_kernel, working_dtype
from nerfmac.common import LOSS_SCALE_GROWTH_INTERVAL, LOSS_SCALE_LARGEST, LOSS_SCALE_SMALLEST
from nerfmac.geometry import Bounds, Rays
from nerfmac.ops import adam
from nerfmac.ops.hash_encode import HashLevels, hash_encode
from nerfmac.ops.loss_scale import LossScale, next_loss_scale
from nerfmac.ops.march import MarchGeometry
from nerfmac.ops.networks import NetworksShape, networks, networks_density
from nerfmac.ops.occupancy_update import pack_bits
from nerfmac.ops.spherical_harmonics import spherical_harmonics
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
    arguments = {
        "features": _drawn(1.0, (slots, shape.features), keys[1]),
        "density": _drawn(shape.width**-0.5, (shape.density.weights,), keys[2]),
        "color": _drawn(shape.width**-0.5, (shape.color.weights,), keys[3]),
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


def _drawn(spread: float, shape: tuple[int, ...], key: mx.array) -> mx.array:
    """Return normally distributed features or weights. They are exact in float16, so only computed
    values are rounded."""
    drawn = spread * mx.random.normal(shape, key=key)
    return drawn.astype(mx.float16).astype(mx.float32)


def _exact_products() -> AbstractContextManager[Any]:
    """Return a context manager that runs references on the CPU, because a GPU may use TF32."""
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
        """Return a random table and random weights. `contrast` scales the density variation."""
        shape = self.geometry.networks
        return (
            _drawn(1.0, (self.levels.entries, self.features), keys[0]),
            _drawn(contrast * shape.width**-0.5, (shape.density.weights,), keys[1]),
            _drawn(shape.width**-0.5, (shape.color.weights,), keys[2]),
        )


_CUBE = MarchGeometry(Bounds(1.0), 16, 0.05, 3**0.5 / 128, 0.0)
_SCENE = MarchGeometry(Bounds(4.0), 16, 0.1, 3**0.5 / 128, 1 / 64)
_FIELDS = {
    "object": _Field(_CUBE, HashLevels(8, 12, 8, 1.5), 4, 64, (1, 2)),
    "scene": _Field(_SCENE, HashLevels(8, 12, 8, 1.5), 2, 32, (1, 1), density_bias=2),
    "wide": _Field(_CUBE, HashLevels(16, 10, 8, 1.2), 8, 128, (1, 2)),
    "deep": _Field(_SCENE, HashLevels(16, 10, 8, 1.2), 1, 16, (4, 4)),
}


def _other_fields() -> dict[str, _Field]:
    """Return a field for each grid, width, and depth with a separate kernel specialization."""
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
    return {"color": seen.color, "opacity": seen.opacity, "depth": seen.weighted_depth}


_USED = 700  # number of used points; a case has up to 1,031 points


def _points(count: int, low: float, high: float) -> mx.array:
    points = mx.random.uniform(low, high, (count, 3), key=mx.random.key(count))
    # These points are on the border, where an index may be outside of the table.
    corners = mx.array([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 0.5], [1.0, 0.25, 1.0]])
    return mx.concatenate([corners, points])[:count] if count > 4 else points


def _samples_of_rays(count: int, used: int) -> tuple[mx.array, mx.array]:
    """Return sample positions (count, 3) along rays, and their visibility (count,) as 1 or 0. Each
    ray has 37 samples, and neighboring samples are often in the same cell. The positions after the
    first `used` are NaN."""
    keys = mx.random.split(mx.random.key(count), 3)
    lines = count // 37 + 1
    origins = mx.random.uniform(0.2, 0.8, (lines, 1, 3), key=keys[0])
    directions = mx.random.normal((lines, 1, 3), key=keys[1])
    directions = directions / mx.linalg.norm(directions, axis=2, keepdims=True)
    number = mx.arange(37)
    points = (origins + directions * number[:, None] / 300).reshape(-1, 3)[:count]
    points = mx.where(mx.arange(count)[:, None] < used, points, float("nan"))
    is_seen = number < mx.random.randint(0, 60, (lines, 1), key=keys[2])
    return points, is_seen.reshape(-1)[:count].astype(mx.float32)


def _encoded(levels: HashLevels, table: mx.array, positions: mx.array, is_seen: mx.array) -> Arrays:
    def encode(positions: mx.array, table: mx.array) -> mx.array:
        encoded = hash_encode(positions, table, levels, mx.array([_USED]))[:_USED]
        return encoded.astype(mx.float32) * is_seen[: encoded.shape[0], None]

    return with_gradients(encode, positions=positions, table=table)


def hash_encode_cases() -> Iterator[Case]:
    """Yield test cases for each number of features, with points inside, on the border of, and
    outside the cube, and with points along rays."""
    grids = {
        "dense": (HashLevels(2, 16, 4, 2.0), 4),
        "base": (HashLevels(8, 19, 16, 2.0), 4),
        "small": (HashLevels(8, 15, 16, 1.81), 4),
        "sixteen": (HashLevels(16, 14, 16, 1.38), 2),
        "single": (HashLevels(16, 12, 16, 1.3), 1),
        "lonely": (HashLevels(1, 12, 16, 2.0), 1),  # one feature per point
        "eight": (HashLevels(2, 12, 16, 2.0), 8),
        "four": (HashLevels(4, 12, 16, 2.0), 4),
        "eight-of-four": (HashLevels(4, 12, 16, 2.0), 8),
        "eight-of-sixteen": (HashLevels(16, 12, 16, 1.3), 8),
    }
    first, *others = VARIANTS["hash_encode_gradient"].all
    for name, (levels, features) in grids.items():
        table = mx.random.normal((levels.entries, features), key=mx.random.key(1))
        all_seen = mx.ones(2000)
        inputs = {
            "inside-1": (_points(1, 0.0, 1.0), all_seen),
            "inside-3": (_points(3, 0.0, 1.0), all_seen),
            "inside-1031": (_points(1031, 0.0, 1.0), all_seen),
            "outside-517": (_points(517, -0.7, 1.6), all_seen),
            "rays-1031": _samples_of_rays(1031, _USED),
        }
        for where, (positions, is_seen) in inputs.items():
            run = partial(_encoded, levels, table, positions, is_seen)
            # The gradient is discontinuous at cell faces, and features may be discontinuous outside
            # the cube. The rounding error of a position at the finest level is 2^-24 times its
            # number of cells, which is in the thousands.
            outliers = 0.02 if positions.shape[0] > 100 else 0.0
            terms = 64 if levels.log2_entries < 19 else 512
            case = Case("hash_encode", f"{name}-{where}", run, terms, outliers, half_terms=1)
            # The first variant is used, independent of the variant that is selected on this
            # machine. Other variants have separate cases.
            yield replace(in_variant(case, "hash_encode_gradient", first), name=case.name)
            if where in ("inside-1", "inside-3", "rays-1031"):
                for chosen in others:
                    yield in_variant(case, "hash_encode_gradient", chosen)


def spherical_harmonics_cases() -> Iterator[Case]:
    """Yield test cases with 1, 2, and 257 random unit directions."""
    for count in (1, 2, 257):
        directions = mx.random.normal((count, 3), key=mx.random.key(count))
        directions = directions / mx.linalg.norm(directions, axis=1, keepdims=True)
        run = partial(with_gradients, spherical_harmonics, directions=directions)
        yield Case("spherical_harmonics", str(count), run, 16)


def loss_scale_cases() -> Iterator[Case]:
    """Yield cases with finite and other sums of gradients, and with the extreme loss scales."""
    for total in (0.0, -2.5, 3e38, inf, -inf, nan):
        for scale in (LOSS_SCALE_SMALLEST, 1024.0, LOSS_SCALE_LARGEST):
            run = partial(_rescaled, total, scale)
            yield Case("loss_scale", f"{total:g}-{scale:g}", run, 1)


def _rescaled(total: float, scale: float) -> Arrays:
    """Return the loss scales after steps with different numbers of previous good steps."""
    after: Arrays = {}
    for good_steps in (0, LOSS_SCALE_GROWTH_INTERVAL - 1):
        state = LossScale.init(scale)._replace(
            good_steps=mx.array(good_steps), skipped=mx.array(5), skipped_in_a_row=mx.array(2)
        )
        state, unscale = next_loss_scale(state, mx.array(total))
        arrays = {**state._asdict(), "unscale": unscale}
        after |= {f"{name} after {good_steps}": values for name, values in arrays.items()}
    return after


def moving_average_cases() -> Iterator[Case]:
    """Yield cases of steps that change the average, and of a skipped step."""
    for shape in ((1,), (300,), (257, 4)):
        average, newest = mx.random.normal((2, *shape), key=mx.random.key(1))
        for skipped in (0, 3):
            name = f"{'x'.join(map(str, shape))}-{skipped}"
            run = partial(_averaged, average, newest, skipped)
            yield Case("moving_average", name, run, 2)


def _averaged(average: mx.array, newest: mx.array, skipped: int) -> Arrays:
    return {"average": adam.moving_average(average, newest, mx.array(0.3), mx.array(skipped))}


_STEP = adam.AdamStep(0.9, 0.99, 0.01, epsilon=1e-8, l2=1e-3, most=adam.most_first(0.9, 0.99))


def adam_cases() -> Iterator[Case]:
    """Yield test cases with arrays of one and two axes. One third of the entries never have a
    gradient. In the last case, gradients are not finite, and their steps are skipped."""
    for shape in ((1,), (5,), (300,), (257, 4)):
        yield Case("adam", "x".join(map(str, shape)), partial(_updated, shape), 8)
    yield Case("adam", "not-finite", _guarded, 8)


def _guarded() -> Arrays:
    """Return the parameters after a step along gradients that contain NaN, infinity, and 1."""
    parameters, moments = mx.array([1.0, 2.0, 3.0]), mx.zeros((3,), mx.uint32)
    step = mx.array(_STEP._replace(l2=0.0))
    after: Arrays = {}
    for value in (nan, inf, -inf, 1.0):
        gradient = mx.array([0.5, value, -0.25])
        _, unscale = next_loss_scale(LossScale.init(1.0), gradient.sum())
        after[f"after {value}"] = adam.adam_step(parameters, moments, gradient, unscale, step)[0]
    return after


def _updated(shape: tuple[int, ...]) -> Arrays:
    keys = mx.random.split(mx.random.key(sum(shape)), 4)
    drawn = [mx.random.normal(shape, key=key) for key in keys]
    is_still = drawn[3] > 0.4
    gradient, first = (mx.where(is_still, 0.0, array) for array in drawn[:2])
    second = mx.where(is_still, 0.0, mx.square(drawn[1]))
    moments = adam.pack_moments(first, second, _STEP.most)
    moved, after = adam.adam_step(drawn[2], moments, gradient, mx.array([0.25]), mx.array(_STEP))
    # A moment halfway between two codes may be rounded to either code, so moments are compared
    # instead of codes.
    first, second = adam.unpack_moments(after, _STEP.most)
    return {"parameters": moved, "first": first, "second": second}
