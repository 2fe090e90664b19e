"""Gradient scaling: smaller gradients for samples near a camera, to avoid haze near cameras.

Many of a camera's rays cross the cells near it, but few other images show these cells. Optimization
can therefore reduce the error of a single image by adding haze near its camera. To prevent this
haze, the gradients of samples are multiplied by

    min(1, (t / d)^2)

where t is the distance of the sample from the camera, and d is `full_gradient_distance` (Philip and
Deschaintre 2023, "Floaters No More", equation 5).
"""

from typing import cast

import mlx.core as mx


def scale_gradients(
    values: mx.array, distance: mx.array, full_gradient_distance: float
) -> mx.array:
    """Return `values` (slots,) or (slots, n) unchanged, but with scaled gradients.

    `distance` (slots,) is the distance from the camera, in scene units like
    `full_gradient_distance`. If `full_gradient_distance` is 0, gradients are not scaled.
    """
    if not full_gradient_distance:
        return values
    return cast(mx.array, _unchanged(values, distance / full_gradient_distance))


@mx.custom_function
def _unchanged(values: mx.array, _relative_distance: mx.array) -> mx.array:
    return values


@_unchanged.vjp
def _unchanged_vjp(primals, cotangent, _output):  # type: ignore[no-untyped-def]
    relative_distance = primals[1]
    factor = mx.minimum(mx.square(relative_distance), 1.0)
    factor = factor.reshape(-1, *[1] * (cotangent.ndim - 1))
    return factor * cotangent, mx.zeros_like(relative_distance)
