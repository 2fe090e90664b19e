"""Test cases of the hash encoding, spherical harmonics, and the optimizer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from math import inf, nan

import mlx.core as mx

from nerfmac.app.measure.selftest.comparison import Arrays, Case, in_variant, with_gradients
from nerfmac.backend.variants import VARIANTS
from nerfmac.common.constants import (
    LOSS_SCALE_GROWTH_INTERVAL,
    LOSS_SCALE_LARGEST,
    LOSS_SCALE_SMALLEST,
)
from nerfmac.ops.adam import Step, adam_step, most_first, pack_moments, unpack_moments
from nerfmac.ops.hash_encode import HashLevels, hash_encode
from nerfmac.ops.loss_scale import LossScale, next_loss_scale
from nerfmac.ops.spherical_harmonics import spherical_harmonics

_USED = 700  # number of used points; a case has up to 1,031 points


def _points(count: int, low: float, high: float) -> mx.array:
    points = mx.random.uniform(low, high, (count, 3), key=mx.random.key(count))
    # These points are on the border, where an index may be outside of the table.
    corners = mx.array([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 0.5], [1.0, 0.25, 1.0]])
    return mx.concatenate([corners, points])[:count] if count > 4 else points


def _samples_of_rays(count: int, used: int) -> tuple[mx.array, mx.array]:
    """Return sample positions (count, 3) along rays, and their visibility (count,) as 1 or 0.

    Each ray has 37 samples, and neighboring samples are often in the same cell. The positions after
    the first `used` are NaN.
    """
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
    def encode(positions: mx.array, table: mx.array) -> list[mx.array]:
        encoded = hash_encode(positions, table, levels, mx.array([_USED]))[:_USED]
        return [encoded.astype(mx.float32) * is_seen[: encoded.shape[0], None]]

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
        run = partial(
            with_gradients, lambda given: [spherical_harmonics(given)], directions=directions
        )
        yield Case("spherical_harmonics", str(count), run, 16)


def loss_scale_cases() -> Iterator[Case]:
    """Yield cases with finite and other sums of gradients, and with the extreme loss scales."""
    for total in (0.0, -2.5, 3e38, inf, -inf, nan):
        for scale in (LOSS_SCALE_SMALLEST, 1024.0, LOSS_SCALE_LARGEST):
            run = partial(_rescaled, total, scale)
            yield Case("loss_scale", f"{total:g}-{scale:g}", run, 1)


def _rescaled(total: float, scale: float) -> Arrays:
    """Return the loss scales after steps with different numbers of previous good steps."""
    after = {}
    for good_steps in (0, LOSS_SCALE_GROWTH_INTERVAL - 1):
        state = LossScale.init(scale)._replace(
            good_steps=mx.array(good_steps), skipped=mx.array(5), skipped_in_a_row=mx.array(2)
        )
        state, unscale = next_loss_scale(state, mx.array(total))
        arrays = {**state._asdict(), "unscale": unscale}
        after |= {f"{name} after {good_steps}": values for name, values in arrays.items()}
    return after


def adam_cases() -> Iterator[Case]:
    """Yield test cases with arrays of one and two axes. One third of the entries never have a
    gradient. In the last case, gradients are not finite, and their steps are skipped."""
    for shape in ((1,), (5,), (300,), (257, 4)):
        yield Case("adam", "x".join(map(str, shape)), partial(_updated, shape), 8)
    yield Case("adam", "not-finite", _guarded, 8)


def _guarded() -> Arrays:
    """Return the parameters after a step along gradients that contain NaN, infinity, and 1."""
    parameters, moments = mx.array([1.0, 2.0, 3.0]), mx.zeros((3,), mx.uint32)
    step = mx.array(Step(0.9, 0.99, 0.01, epsilon=1e-8, l2=0.0, most=most_first(0.9, 0.99)))
    after = {}
    for value in (nan, inf, -inf, 1.0):
        gradient = mx.array([0.5, value, -0.25])
        _, unscale = next_loss_scale(LossScale.init(1.0), gradient.sum())
        after[f"after {value}"] = adam_step(parameters, moments, gradient, unscale, step)[0]
    return after


def _updated(shape: tuple[int, ...]) -> Arrays:
    keys = mx.random.split(mx.random.key(sum(shape)), 4)
    drawn = [mx.random.normal(shape, key=key) for key in keys]
    is_still = drawn[3] > 0.4
    gradient, first = (mx.where(is_still, 0.0, array) for array in drawn[:2])
    second = mx.where(is_still, 0.0, mx.square(drawn[1]))
    most = most_first(0.9, 0.99)
    step = Step(0.9, 0.99, size=0.01, epsilon=1e-8, l2=1e-3, most=most)
    moments = pack_moments(first, second, most)
    moved, after = adam_step(drawn[2], moments, gradient, mx.array([0.25]), mx.array(step))
    # A moment halfway between two codes may be rounded to either code, so moments are compared
    # instead of codes.
    first, second = unpack_moments(after, most)
    return {"parameters": moved, "first": first, "second": second}
