"""Cases of the optimiser's step."""

from __future__ import annotations

from collections.abc import Iterator

import mlx.core as mx

from nerfmac.measure.selftest.comparison import Arrays, Case
from nerfmac.ops.adam import Step, adam_step, most_first, pack_moments, unpack_moments


def adam_cases() -> Iterator[Case]:
    """Arrays of one and of two axes; a third of the entries has no gradient and never had one."""
    for shape in ((1,), (5,), (300,), (257, 4)):

        def run(shape: tuple[int, ...] = shape) -> Arrays:
            keys = mx.random.split(mx.random.key(sum(shape)), 4)
            drawn = [mx.random.normal(shape, key=key) for key in keys]
            is_still = drawn[3] > 0.4
            gradient, first = (mx.where(is_still, 0.0, each) for each in drawn[:2])
            second = mx.where(is_still, 0.0, mx.square(drawn[1]))
            most = most_first(0.9, 0.99)
            step = Step(0.9, 0.99, size=0.01, epsilon=1e-8, l2=1e-3, unscale=0.25, most=most)
            moments = pack_moments(first, second, most)
            moved, after = adam_step(drawn[2], moments, gradient, mx.array(step))
            # A moment on the border between two codes may become either.
            first, second = unpack_moments(after, most)
            return {"parameters": moved, "first": first, "second": second}

        yield Case("adam", "x".join(map(str, shape)), run, 8)
