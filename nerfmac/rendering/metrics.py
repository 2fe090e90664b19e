"""PSNR and SSIM of a rendered image compared with a photo.

    PSNR = -10 log10 mean (image - target)^2                                   in dB

    SSIM = mean of (2 mu_x mu_y + C1) (2 s_xy + C2) / ((mu_x^2 + mu_y^2 + C1) (s_x^2 + s_y^2 + C2))

Values are in [0, 1], C1 = 0.01^2, and C2 = 0.03^2 (Wang et al. 2004). The means mu, the variances
s_x^2 and s_y^2, and the covariance s_xy are weighted by a Gaussian window of 11 x 11 pixels with a
sigma of 1.5 pixels. The SSIM is computed per channel at every window position inside the image, and
then averaged. scikit-image computes the same value with `gaussian_weights=True, sigma=1.5,
use_sample_covariance=False, data_range=1`.

MLX arrays are compared on the device in float32, and NumPy arrays on the host in float64. The
results differ by at most 1e-3 dB in PSNR and 1e-4 in SSIM. Therefore, SSIM is computed from the
difference d = x - y and the centered sum c = x + y - 1, because their moments lose little precision
to cancellation:

    SSIM = mean of (1 - mu_d^2 / (mu_x^2 + mu_y^2 + C1)) (1 - s_d^2 / (s_x^2 + s_y^2 + C2))

    mu_x^2 + mu_y^2 = ((1 + mu_c)^2 + mu_d^2) / 2          s_x^2 + s_y^2 = (s_c^2 + s_d^2) / 2
"""

import math
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np

from nerfmac.common import InputError

Image = mx.array | np.ndarray

WINDOW = 11  # pixels on a side
SIGMA = 1.5  # pixels
C1, C2 = 0.01**2, 0.03**2
FLAT = 1e-8  # variance below which an image counts as uniform, so that no gain is fitted
BAND = 2**17  # number of pixels to filter at a time, to limit memory use

_gauss = [math.exp(-0.5 * ((i - WINDOW // 2) / SIGMA) ** 2) for i in range(WINDOW)]
TAPS = tuple(value / sum(_gauss) for value in _gauss)


class Sums(NamedTuple):
    """Sums of values over image rows, which the device may still be computing."""

    parts: list[Image]  # sums (rows,) of consecutive rows
    terms: int  # number of values in all rows

    def mean(self) -> float:
        """Return the mean of all values, summed in float64. The host waits for the device."""
        mx.eval(self.parts)
        return sum(float(np.sum(np.asarray(part, np.float64))) for part in self.parts) / self.terms


def psnr(image: Image, target: Image) -> float:
    """Return the peak signal-to-noise ratio of two float (h, w, 3) images in [0, 1], in dB.

    If the images are equal, the result is infinity.
    """
    return decibels(squared_error(image, target).mean())


def ssim(image: Image, target: Image) -> float:
    """Return the structural similarity of two float (h, w, 3) images in [0, 1].

    Each side must have at least 11 pixels.
    """
    return similarity(image, target).mean()


def color_corrected(image: mx.array, target: mx.array, kept: mx.array | None = None) -> mx.array:
    """Correct each channel of `image` (h, w, 3) with the gain and offset that best fit `target`.

    Gain and offset minimize the squared error over the pixels where `kept`, bool (h, w), is True.
    The result is clipped to [0, 1]. With this correction, views with unknown exposure or white
    balance can be compared, as in RawNeRF (Mildenhall et al. 2022).
    """
    weights = mx.ones((*image.shape[:2], 1)) if kept is None else kept[..., None].astype(mx.float32)
    weights = weights / mx.maximum(weights.sum(), 1.0)
    mean, wanted = ((weights * values).sum(axis=(0, 1)) for values in (image, target))
    shade = image - mean
    variance = (weights * mx.square(shade)).sum(axis=(0, 1))
    covariance = (weights * shade * (target - wanted)).sum(axis=(0, 1))
    gain = mx.where(variance > FLAT, covariance / mx.maximum(variance, FLAT), 1.0)
    return mx.clip(gain * shade + wanted, 0.0, 1.0)


def decibels(error: float) -> float:
    """Convert a mean squared error, or 0, to a PSNR in dB."""
    return -10.0 * math.log10(error) if error != 0.0 else math.inf


def squared_error(image: Image, target: Image) -> Sums:
    """Start computing the mean squared error on the device. The arguments are as in `psnr`."""
    x, y = _pair(image, target)
    d = (x - y).reshape(x.shape[0], -1)
    return Sums([_begun((d * d).sum(axis=1))], x.size)


def similarity(image: Image, target: Image) -> Sums:
    """Start computing the SSIM on the device. The arguments are as in `ssim`."""
    x, y = _pair(image, target)
    height, width, channels = x.shape
    if min(height, width) < WINDOW:
        raise InputError(
            f"image has shape {x.shape}; SSIM needs at least {WINDOW} pixels on a side"
        )
    rows = height - WINDOW + 1  # number of rows of windows
    step = max(BAND // width, 1)
    bands = [slice(row, row + step + WINDOW - 1) for row in range(0, rows, step)]
    parts = [_begun(_similarity(x[band], y[band])) for band in bands]
    return Sums(parts, rows * (width - WINDOW + 1) * channels)


def _similarity(x: Image, y: Image) -> Image:
    """Return the sum of the SSIM over each row of windows, (h - 10,), for two images (h, w,
    channels).

    The four moments are concatenated and filtered as one flat vector, where neighboring pixels have
    fixed offsets. Windows that extend beyond the end of a row or a moment are discarded.
    """
    height, width, channels = x.shape
    d, c = x - y, x + y - 1.0
    moments = _joined([d, c, d * d, c * c])
    blurred = _blur(_blur(moments, channels), width * channels)
    rows = height - WINDOW + 1
    beyond = (WINDOW - 1) * channels  # values missing in the last row of the last moment
    count = rows * width * channels - beyond
    mean_d, mean_c, square_d, square_c = (
        blurred[first : first + count] for first in range(0, x.size * 4, x.size)
    )
    luminance = mean_d * mean_d
    variance = square_d - luminance
    both = 0.5 * (square_c - mean_c * mean_c + variance)
    mean_c = mean_c + 1.0
    scores = 1.0 - luminance / (0.5 * (mean_c * mean_c + luminance) + C1)
    scores = scores * (1.0 - variance / (both + C2))
    scores = _joined([scores, x[0, : WINDOW - 1]]).reshape(rows, width * channels)
    return scores[:, : width * channels - beyond].sum(axis=1)


def _blur(values: Image, stride: int) -> Image:
    """Return the weighted mean of each value and ten later values at intervals of `stride`. The
    weights are `TAPS`."""
    count = values.shape[0] - (WINDOW - 1) * stride
    shifted = [values[i * stride : i * stride + count] for i in range(WINDOW)]
    total = TAPS[WINDOW // 2] * shifted[WINDOW // 2]
    for i in range(WINDOW // 2):  # the window is symmetric, so two taps share a product
        total = total + TAPS[i] * (shifted[i] + shifted[WINDOW - 1 - i])
    return total


def _joined(parts: list[Any]) -> Image:
    """Concatenate the values of all arrays to one flat vector."""
    flat = [part.reshape(-1) for part in parts]
    return mx.concatenate(flat) if isinstance(flat[0], mx.array) else np.concatenate(flat)


def _begun(values: Image) -> Image:
    """Return `values`. If `values` is an MLX array, start to compute it on the device."""
    if isinstance(values, mx.array):
        mx.async_eval(values)
    return values


def _pair(image: Image, target: Image) -> tuple[Image, Image]:
    """Return both images in float32 on the device or, for NumPy arrays, in float64 on the host."""
    for name, values in (("image", image), ("target", target)):
        if values.ndim != 3 or values.shape[2] != 3 or values.size == 0:
            raise InputError(f"{name} has shape {tuple(values.shape)}; expected (height, width, 3)")
        library: Any = mx if isinstance(values, mx.array) else np
        if not library.issubdtype(values.dtype, library.floating):
            raise InputError(f"{name} is {values.dtype}; expected float values in [0, 1]")
    if tuple(image.shape) != tuple(target.shape):
        raise InputError(f"image has shape {image.shape}, but target has shape {target.shape}")
    if isinstance(image, np.ndarray) and isinstance(target, np.ndarray):
        return image.astype(np.float64), target.astype(np.float64)
    return _on_device(image), _on_device(target)


def _on_device(values: Image) -> mx.array:
    """Return `values` in float32, without a copy if they are already in float32."""
    return (values if isinstance(values, mx.array) else mx.array(values)).astype(mx.float32)
