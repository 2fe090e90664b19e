"""Gradients of a pixel's direction with respect to its lens, to first order.

A pixel at the fixed place m sees the direction (x, y, 1) with focal distort(x, y) = m, so that

    d(x, y) = -J^-1 (distort(x, y) dlog focal + d distort(x, y)),   J = d distort / d(x, y)

where the last term varies the coefficients alone. A fisheye lens does the same along its angle.
"""

from __future__ import annotations

import mlx.core as mx

from nerfmac.geometry.lenses import distort_with_slopes

_LEAST = 1e-6


def lens_jvp(
    direction: mx.array, stretch: mx.array, distortion: mx.array, is_fisheye: bool
) -> mx.array:
    """Zeros (r, 3) that carry gradients: d(direction) by d(stretch) and by d(distortion).

    `direction` (r, 3) is the unit direction of each pixel's ray through the lens as it is, with x
    right, y down, z forwards. `stretch` (r, 1) is 0, the logarithm of a factor on the focal length.
    `distortion` (r, 7) is as in `Cameras`. `is_fisheye`: some lenses are fisheyes.
    """
    direction = mx.stop_gradient(direction)
    straight = _straight(direction, stretch, distortion)
    if not is_fisheye:
        return straight
    return mx.where(distortion[:, 6:] > 0, _fisheye(direction, stretch, distortion), straight)


def _straight(direction: mx.array, stretch: mx.array, distortion: mx.array) -> mx.array:
    ahead = mx.maximum(direction[:, 2:], _LEAST)
    x, y = direction[:, :1] / ahead, direction[:, 1:2] / ahead
    coefficients = list(mx.split(distortion[:, :6], 6, axis=-1))
    got_x, got_y, xx, xy, yy = distort_with_slopes(x, y, coefficients)
    off_x, off_y = (_change(mx.exp(stretch) * got) for got in (got_x, got_y))
    xx, xy, yy = map(mx.stop_gradient, (xx, xy, yy))
    determinant = xx * yy - xy * xy
    inverse = -ahead / mx.where(mx.abs(determinant) < _LEAST, _LEAST, determinant)
    moved_x, moved_y = inverse * (yy * off_x - xy * off_y), inverse * (xx * off_y - xy * off_x)
    moved = mx.concatenate([moved_x, moved_y, mx.zeros_like(moved_x)], axis=-1)
    return moved - direction * (direction * moved).sum(axis=-1, keepdims=True)


def _fisheye(direction: mx.array, stretch: mx.array, distortion: mx.array) -> mx.array:
    across = mx.sqrt(mx.square(direction[:, :2]).sum(axis=-1, keepdims=True))
    angle = mx.arctan2(across, direction[:, 2:])
    k1, k2, k3, k4 = mx.split(distortion[:, :4], 4, axis=-1)
    square = angle * angle
    radial = 1.0 + square * (k1 + square * (k2 + square * (k3 + square * k4)))
    slope = k1 + square * (2.0 * k2 + square * (3.0 * k3 + square * 4.0 * k4))
    derivative = mx.stop_gradient(radial + 2.0 * square * slope)
    off = _change(mx.exp(stretch) * angle * radial)
    moved = -off / mx.where(mx.abs(derivative) < _LEAST, _LEAST, derivative)
    side = direction[:, :2] / mx.maximum(across, _LEAST)
    return mx.concatenate([moved * direction[:, 2:] * side, -moved * across], axis=-1)


def _change(values: mx.array) -> mx.array:
    """Zero, with the gradient of `values`."""
    return values - mx.stop_gradient(values)
