"""Gradient scaling: a sample near its camera learns by the share of views that see its place.

Light spreads: the nearer a place is to a camera, the more of that camera's rays pass it, and the
fewer other cameras see it. So what is wrong in a picture is mended most quickly by a fog right in
front of its camera, which no other view contradicts. With gradients times

    min(1, (t / d)^2),   t the distance of a sample, d that from which on nothing is scaled,

a place in front of a camera learns no faster than it does for others (Philip and Deschaintre 2023,
"Floaters No More", equation 5).
"""

from __future__ import annotations

from typing import cast

import mlx.core as mx


def scaled(values: mx.array, distance: mx.array, full: float) -> mx.array:
    """`values` (slots,) or (slots, n) as they are; their gradients are scaled.

    `distance` (slots,) is from the camera and `full` where gradients begin to be whole, both in
    scene units; with 0 all are.
    """
    return cast(mx.array, _unchanged(values, distance / full)) if full else values


@mx.custom_function
def _unchanged(values: mx.array, _away: mx.array) -> mx.array:
    return values


@_unchanged.vjp
def _unchanged_vjp(primals, cotangent, _output):  # type: ignore[no-untyped-def]
    away = primals[1]
    factor = mx.minimum(mx.square(away), 1.0).reshape(-1, *[1] * (cotangent.ndim - 1))
    return factor * cotangent, mx.zeros_like(away)
