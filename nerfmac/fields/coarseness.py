"""Weights that fade an encoding's levels in, from the coarsest to the finest.

    weight_k = (1 - cos(pi clip(a - k, 0, 1))) / 2

for level k of n, where a goes from n / 4 to n (BARF, Lin et al. 2021, equation 14, which begins
with no level; here the coarsest quarter is there from the start).
"""

from __future__ import annotations

from math import pi

import mlx.core as mx

FIRST = 0.25
"""Part of the levels that takes part from the start."""


def level_weights(levels: int, detail: mx.array) -> mx.array:
    """(levels,) float32 weights; `detail` () is 0 at the start, and 1 when all levels are there."""
    reached = levels * (FIRST + (1.0 - FIRST) * detail)
    part = mx.clip(reached - mx.arange(levels), 0.0, 1.0)
    return 0.5 * (1.0 - mx.cos(pi * part))
