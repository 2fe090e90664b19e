"""Cases of the optimiser's step."""

from __future__ import annotations

from collections.abc import Iterator

import mlx.core as mx

from nerfmac.ops.adam import Moments, Step, adam_step
from nerfmac.selftest.comparison import Arrays, Case


def adam_cases() -> Iterator[Case]:
    """Arrays of one and of two axes; a third of the entries has no gradient and never had one."""
    for shape in ((1,), (5,), (300,), (257, 4)):

        def run(shape: tuple[int, ...] = shape) -> Arrays:
            keys = mx.random.split(mx.random.key(sum(shape)), 4)
            drawn = [mx.random.normal(shape, key=key) for key in keys]
            is_still = drawn[3] > 0.4
            gradient, first = (mx.where(is_still, 0.0, each) for each in drawn[:2])
            second = mx.where(is_still, 0.0, mx.square(drawn[1]))
            step = Step(0.9, 0.99, size=0.01, epsilon=1e-8, l2=1e-3, unscale=0.25)
            moments = Moments(drawn[2], first, second)
            return adam_step(moments, gradient, mx.array(step))._asdict()

        yield Case("adam", "x".join(map(str, shape)), run, 8)
