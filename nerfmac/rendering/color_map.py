"""Color maps that convert numbers in [0, 1] to sRGB, by interpolation between anchor colors."""

import mlx.core as mx

Anchors = tuple[tuple[float, float, float], ...]

TURBO: Anchors = (
    (0.190, 0.072, 0.232),
    (0.251, 0.252, 0.632),
    (0.276, 0.420, 0.890),
    (0.259, 0.578, 0.999),
    (0.160, 0.733, 0.925),
    (0.093, 0.863, 0.765),
    (0.192, 0.947, 0.599),
    (0.421, 0.994, 0.391),
    (0.638, 0.991, 0.236),
    (0.799, 0.928, 0.204),
    (0.929, 0.817, 0.226),
    (0.992, 0.681, 0.206),
    (0.985, 0.502, 0.132),
    (0.925, 0.323, 0.058),
    (0.823, 0.191, 0.019),
    (0.675, 0.089, 0.004),
    (0.480, 0.016, 0.011),
)
"""Google's Turbo color map (Mikhailov 2019), from violet through green to red. Turbo makes small
differences visible."""

INFERNO: Anchors = (
    (0.001, 0.000, 0.014),
    (0.090, 0.045, 0.230),
    (0.258, 0.039, 0.406),
    (0.419, 0.091, 0.433),
    (0.578, 0.148, 0.404),
    (0.733, 0.214, 0.332),
    (0.865, 0.317, 0.226),
    (0.953, 0.465, 0.102),
    (0.988, 0.645, 0.040),
    (0.965, 0.840, 0.267),
    (0.988, 0.998, 0.645),
)
"""Matplotlib's Inferno color map (Smith and van der Walt 2015), from black to yellow, with
uniformly increasing brightness."""

GRAY: Anchors = ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))

MAPS = {"turbo": TURBO, "inferno": INFERNO, "gray": GRAY}
"""Color maps that users can select."""


def shown(values: mx.array) -> mx.array:
    """Convert an additional output of a field, (n, channels), to sRGB colors (n, 3) in [0, 1].

    One channel is shown with a color map from its minimum to its maximum. Three channels are red,
    green, and blue, with gray for 0 if a value is negative. Otherwise, each channel has a color,
    and the color of the largest channel is shown.
    """
    channels = values.shape[1]
    if channels == 1:
        low = values.min()
        return colored((values[:, 0] - low) / mx.maximum(values.max() - low, 1e-12), TURBO)
    if channels == 3:
        high = mx.maximum(mx.abs(values).max(), 1e-12)
        low = mx.where(values.min() < 0.0, -high, 0.0)
        return (values - low) / (high - low)
    classes = colored((mx.arange(channels) + 0.5) / channels, TURBO)
    return classes[values.argmax(axis=1)]


def colored(values: mx.array, anchors: Anchors) -> mx.array:
    """Convert `values` (n,) to sRGB colors (n, 3) in [0, 1]. Values are clipped to [0, 1]."""
    table = mx.array(anchors)
    position = mx.clip(values, 0.0, 1.0) * (len(anchors) - 1)
    below = mx.minimum(position.astype(mx.int32), len(anchors) - 2)
    fraction = (position - below)[:, None]
    return table[below] * (1.0 - fraction) + table[below + 1] * fraction
