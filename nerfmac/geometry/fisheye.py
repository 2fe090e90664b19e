"""Fisheye lenses: the model of OpenCV's fisheye module and of COLMAP's, after Kannala and Brandt.

A direction at the angle t from the optical axis goes to the distance

    t' = t (1 + k1 t^2 + k2 t^4 + k3 t^6 + k4 t^8)

from the principal point, in focal lengths, on the side that it comes from. So a image may be
wider than half a turn, where (x, y, 1) has no meaning: here directions have three numbers.
"""

from __future__ import annotations

import mlx.core as mx

from nerfmac.common.constants import LONGEST_STEP

NEWTON_STEPS = 5


def fisheye_directions(point: mx.array, coefficients: mx.array) -> mx.array:
    """Unit directions (r, 3), x right, y down, z forwards, that lenses map to points (r, 2).

    `point` is (x', y') from the principal point, in focal lengths; `coefficients` are k1 to k4,
    (r, 4) or (1, 4). A fixed number of Newton steps inverts the model. The direction of a point
    that no direction maps to is arbitrary but finite.
    """
    away = mx.sqrt(mx.sum(mx.square(point), axis=-1, keepdims=True))
    k1, k2, k3, k4 = mx.split(coefficients, 4, axis=-1)
    angle = away
    for _ in range(NEWTON_STEPS):
        square = angle * angle
        radial = 1.0 + square * (k1 + square * (k2 + square * (k3 + square * k4)))
        slope = k1 + square * (2.0 * k2 + square * (3.0 * k3 + square * 4.0 * k4))
        derivative = radial + 2.0 * square * slope
        step = (angle * radial - away) / mx.where(mx.abs(derivative) < 1e-6, 1e-6, derivative)
        angle = angle - mx.clip(step, -LONGEST_STEP, LONGEST_STEP)
    # sin(angle) / away tends to 1 toward the axis.
    side = mx.where(away < 1e-6, 1.0, mx.sin(angle) / mx.maximum(away, 1e-6))
    return mx.concatenate([side * point, mx.cos(angle)], axis=-1)
