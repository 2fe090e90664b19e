"""Detection of exposure and white balance differences between images, from the colors of tracks.

All pixels of a track show the same point. Apart from noise and specular reflections, the linear
light of red, green, and blue in observation o of point p in image v is therefore

    log light_o = log gain_v + log color_p

The gains are computed with alternating medians over the observations of each point and of each
image (median polish, Tukey 1977). Gains are relative to the median over the images.
"""

from itertools import product

import mlx.core as mx
import numpy as np

from nerfmac.common import Float64Array, Int64Array
from nerfmac.geometry import Tracks, Views, srgb_to_linear

DARKEST, BRIGHTEST = 0.01, 0.9
"""Range of linear light in which colors are neither noisy nor clipped, within [0, 1]."""
MOST_OBSERVATIONS = 2**17
"""Approximate maximum number of observations used to estimate gains."""
FEWEST_IN_IMAGE = 10
"""Minimum number of observations in an image with a valid gain."""
FEWEST_IMAGES = 5
"""Minimum number of images with a valid gain for computing a spread."""
TURNS = 10
"""Number of median polish iterations. If gains drift along the camera path, several iterations are
necessary."""
DIFFERENT = 0.08
"""Spread of log gains above which exposures are different. The measured spread is 0.04 for a video
with constant light and 0.12 for photos with automatic exposure."""


def gain_spread(views: Views) -> Float64Array | None:
    """Return a robust standard deviation (3,) of the images' log gains for red, green, and blue, or
    None if `views` has too few tracks."""
    if views.tracks is None:
        return None
    tracks = views.tracks.well_seen(most=MOST_OBSERVATIONS)
    light = observed_light(views, tracks)
    is_good = np.all((light > DARKEST) & (light < BRIGHTEST), axis=1)
    gains = image_gains(tracks.observed(is_good), np.log(light[is_good]), len(views.names))
    known = gains[~np.isnan(gains[:, 0])]
    if len(known) < FEWEST_IMAGES:
        return None
    return np.asarray(1.4826 * np.median(np.abs(known - np.median(known, axis=0)), axis=0))


def observed_light(views: Views, tracks: Tracks) -> Float64Array:
    """Return the mean linear light (observations, 3), in [0, 1], of the 3 x 3 pixels around each
    observation."""
    width, height = np.array(views.cameras.sizes).T[:, tracks.view]
    first = np.array(views.cameras.places)[tracks.view, 0]
    column, row = np.floor(tracks.pixel).astype(np.int64).T
    light = np.zeros((len(row), 3))
    for down, right in product((-1, 0, 1), repeat=2):
        x, y = np.clip(column + right, 0, width - 1), np.clip(row + down, 0, height - 1)
        pixels = views.pixels[mx.array((first + y * width + x).astype(np.int32))]
        light += np.array(srgb_to_linear(pixels[:, :3].astype(mx.float32) / 255.0)) / 9.0
    return light


def image_gains(tracks: Tracks, light: Float64Array, views: int) -> Float64Array:
    """Estimate the log gains (views, 3) of images from the log `light` (observations, 3). The
    median of the gains over the images is 0. If an image has too few observations, its gain is
    NaN."""
    shown = np.bincount(tracks.view, minlength=views)
    gains = np.zeros((views, 3))
    for _ in range(TURNS):
        colors = _medians(light - gains[tracks.view], tracks.point)
        gains = _medians(light - colors[tracks.point], tracks.view, views)
    is_known = shown >= FEWEST_IN_IMAGE
    gains[~is_known] = np.nan
    return gains - np.median(gains[is_known], axis=0) if is_known.any() else gains


def _medians(values: Float64Array, group: Int64Array, groups: int = 0) -> Float64Array:
    """Return the median (3,) of the `values` (n, 3) in each group, or 0 for an empty group."""
    counts = np.bincount(group, minlength=groups)
    starts = np.cumsum(counts) - counts
    medians = np.zeros((len(counts), 3))
    filled = counts > 0
    for channel in range(3):
        ordered = values[np.lexsort((values[:, channel], group)), channel]
        low, high = starts + (counts - 1) // 2, starts + counts // 2
        medians[filled, channel] = 0.5 * (ordered[low[filled]] + ordered[high[filled]])
    return medians
