"""Color: the sRGB transfer functions, and blending images with alpha over a background."""

from __future__ import annotations

import mlx.core as mx


def srgb_to_linear(values: mx.array) -> mx.array:
    """The linear light of sRGB `values` in [0, 1], by IEC 61966-2-1."""
    return mx.where(values <= 0.04045, values / 12.92, mx.power((values + 0.055) / 1.055, 2.4))


def linear_to_srgb(values: mx.array) -> mx.array:
    """The inverse of `srgb_to_linear`."""
    # The power's slope is infinite at zero, so its argument stays above that.
    curve = 1.055 * mx.power(mx.maximum(values, 1e-6), 1 / 2.4) - 0.055
    return mx.where(values <= 0.0031308, values * 12.92, curve)


def exposed(values: mx.array, stops: float) -> mx.array:
    """sRGB `values` in [0, 1] with 2^stops times the light, clipped at 1."""
    if stops == 0.0:
        return values
    return linear_to_srgb(mx.minimum(srgb_to_linear(values) * 2.0**stops, 1.0))


def over(rgba: mx.array, background: mx.array, blend: str) -> mx.array:
    """A straight-alpha sRGB image (..., 4) over `background` (..., 3) sRGB: (..., 3) sRGB.

    `blend` `srgb` mixes encoded values, as browsers and most benchmarks of radiance fields do;
    `linear` mixes linear light, as in nature.
    """
    rgb, alpha = rgba[..., :3], rgba[..., 3:]
    if blend == "srgb":
        return rgb * alpha + background * (1.0 - alpha)
    mixed = srgb_to_linear(rgb) * alpha + srgb_to_linear(background) * (1.0 - alpha)
    return linear_to_srgb(mixed)
