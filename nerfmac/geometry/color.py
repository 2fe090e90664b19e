"""sRGB transfer functions, exposure, and alpha blending of images over a background."""

import mlx.core as mx


def srgb_to_linear(values: mx.array) -> mx.array:
    """Convert sRGB `values` in [0, 1] to linear light (IEC 61966-2-1)."""
    return mx.where(values <= 0.04045, values / 12.92, mx.power((values + 0.055) / 1.055, 2.4))


def linear_to_srgb(values: mx.array) -> mx.array:
    """Convert linear light in [0, 1] to sRGB values."""
    # The power function's derivative is infinite at zero, so its argument is clipped to a positive
    # minimum.
    curve = 1.055 * mx.power(mx.maximum(values, 1e-6), 1 / 2.4) - 0.055
    return mx.where(values <= 0.0031308, values * 12.92, curve)


def exposed(values: mx.array, stops: float) -> mx.array:
    """Multiply the linear light of sRGB `values` in [0, 1] by 2^stops, and clip the result at 1."""
    if stops == 0.0:
        return values
    return linear_to_srgb(mx.minimum(srgb_to_linear(values) * 2.0**stops, 1.0))


def over(rgba: mx.array, background: mx.array, blend: str) -> mx.array:
    """Blend a straight-alpha sRGB image (..., 4) over an sRGB `background` (..., 3); see
    `blended`."""
    return blended(rgba[..., :3], rgba[..., 3:], background, blend)


def blended(color: mx.array, alpha: mx.array, background: mx.array, blend: str) -> mx.array:
    """Blend an sRGB `color` (..., 3) with the opacity `alpha` (..., 1) over an sRGB `background`
    (..., 3).

    If `blend` is `srgb`, encoded values are blended, as in browsers and most radiance field
    benchmarks. If `blend` is `linear`, linear light is blended, as is physically correct. The
    result is sRGB (..., 3).
    """
    if blend == "srgb":
        return color * alpha + background * (1.0 - alpha)
    mixed = srgb_to_linear(color) * alpha + srgb_to_linear(background) * (1.0 - alpha)
    return linear_to_srgb(mixed)
