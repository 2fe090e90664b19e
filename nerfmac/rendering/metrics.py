"""How close a rendered image is to a photograph: PSNR and SSIM, on the host.

    PSNR = -10 log10 mean (image - target)^2                                   in dB

    SSIM = mean of (2 mu_x mu_y + C1) (2 s_xy + C2) / ((mu_x^2 + mu_y^2 + C1) (s_x^2 + s_y^2 + C2))

with values in [0, 1], C1 = 0.01^2 and C2 = 0.03^2 (Wang et al. 2004). The means mu, variances and
covariance s are weighted by a Gaussian window of 11 x 11 pixels, sigma 1.5, wherever it fits whole
into the image, in each channel; the scores are averaged. scikit-image gives the same figure for
`gaussian_weights=True, sigma=1.5, use_sample_covariance=False, data_range=1`; its default, a flat
7 x 7 window, gives another.

The PSNR of a set of images is the mean of their PSNRs, as papers report it, not that of their mean
error.
"""

from __future__ import annotations

import math

import mlx.core as mx
import numpy as np

from nerfmac.checks import InputError

Image = mx.array | np.ndarray

WINDOW = 11  # pixels on a side
SIGMA = 1.5  # pixels
C1, C2 = 0.01**2, 0.03**2
BAND = 32  # rows of windows at a time, so that what is filtered stays in the cache

TAPS = np.exp(-0.5 * np.square((np.arange(WINDOW) - WINDOW // 2) / SIGMA))
TAPS /= TAPS.sum()


def psnr(image: Image, target: Image) -> float:
    """Return the peak signal-to-noise ratio of two `(h, w, 3)` images in [0, 1], in dB.

    Equal images give infinity. Raises `InputError` unless both are float images of one shape.
    """
    first, second = _pair(image, target)
    error = float(np.mean(np.square(first - second), dtype=np.float64))
    return -10.0 * math.log10(error) if error != 0.0 else math.inf


def ssim(image: Image, target: Image) -> float:
    """Return the structural similarity of two `(h, w, 3)` images in [0, 1]: 1 when they are equal.

    Raises `InputError` unless both are float images of one shape, at least 11 pixels on a side.
    """
    first, second = _pair(image, target)
    if min(first.shape[:2]) < WINDOW:
        raise InputError(
            f"image has shape {first.shape}; SSIM needs at least {WINDOW} pixels on a side"
        )
    rows = first.shape[0] - WINDOW + 1  # of windows
    total = 0.0
    for channel in range(first.shape[2]):
        x, y = (np.ascontiguousarray(values[..., channel]) for values in (first, second))
        for row in range(0, rows, BAND):
            band = slice(row, row + BAND + WINDOW - 1)
            total += float(np.sum(_similarity(x[band], y[band])))
    return total / (first.shape[2] * rows * (first.shape[1] - WINDOW + 1))


def _similarity(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the SSIM of two `(h, w)` channels in each whole window: `(h - 10, w - 10)`.

    The variances enter as a sum, so their second moments need one filter, not two.
    """
    mean_x, mean_y = _blur(x), _blur(y)
    product, energy = mean_x * mean_y, mean_x * mean_x + mean_y * mean_y
    covariance = _blur(x * y) - product
    variances = _blur(x * x + y * y) - energy
    likeness = (2.0 * product + C1) * (2.0 * covariance + C2)
    return likeness / ((energy + C1) * (variances + C2))


def _blur(values: np.ndarray) -> np.ndarray:
    """Return `values` `(h, w)` averaged in each whole window: `(h - 10, w - 10)`."""
    for axis in (0, 1):
        count = values.shape[axis] - WINDOW + 1
        index = [(slice(None),) * axis + (slice(i, i + count),) for i in range(WINDOW)]
        total = TAPS[WINDOW // 2] * values[index[WINDOW // 2]]
        for i in range(WINDOW // 2):  # the window is symmetric: two taps share a product
            both = values[index[i]] + values[index[WINDOW - 1 - i]]
            both *= TAPS[i]
            total += both
        values = total
    return values


def _pair(image: Image, target: Image) -> tuple[np.ndarray, np.ndarray]:
    """Return both images as float64 NumPy, or raise `InputError`."""
    pair = (_host("image", image), _host("target", target))
    if pair[0].shape != pair[1].shape:
        raise InputError(f"image has shape {pair[0].shape}, target {pair[1].shape}; expected one")
    return pair


def _host(name: str, values: Image) -> np.ndarray:
    """Return `values` as a float64 `(h, w, 3)` array, or raise `InputError`."""
    if values.ndim != 3 or values.shape[2] != 3 or values.size == 0:
        raise InputError(f"{name} has shape {tuple(values.shape)}; expected (height, width, 3)")
    if isinstance(values, mx.array) and mx.issubdtype(values.dtype, mx.floating):
        values = np.asarray(values.astype(mx.float32))  # NumPy knows no bfloat16
    if not isinstance(values, np.ndarray) or not np.issubdtype(values.dtype, np.floating):
        raise InputError(f"{name} is {values.dtype}; expected float values in 0 to 1")
    return values.astype(np.float64)
