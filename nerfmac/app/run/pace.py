"""Measurement of the rendering time per pixel, to estimate how many images fit in a given time."""

import math
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import mlx.core as mx

from nerfmac.geometry import Camera

TRIAL = 2**11
"""Approximate number of pixels that the first trial renders, in total over all cameras."""
TRIAL_SECONDS = 0.15
"""Minimum duration in seconds of a reduced-size trial. Shorter trials measure launch overhead on a
GPU instead of throughput."""
REPETITIONS = 4
"""Number of repetitions of the last trial. The median ignores interruptions by other programs."""


def seconds_per_pixel(render: Callable[[Camera], Any], cameras: Sequence[Camera]) -> float:
    """Measure the rendering time in seconds per pixel by rendering smaller images from all cameras.

    `render` returns the arrays of an image. All images use the first camera's lens, scaled to the
    smaller size.
    """
    lens, pixels = cameras[0].lens, TRIAL
    while True:
        scale = min(1.0, math.sqrt(pixels / (lens.width * lens.height * len(cameras))))
        small = lens.scaled(max(round(lens.width * scale), 1), max(round(lens.height * scale), 1))
        trial = [Camera(small, camera.pose) for camera in cameras]
        mx.eval(render(trial[0]))  # compiles
        seconds = _seconds(render, trial)
        if seconds >= TRIAL_SECONDS or scale == 1.0:
            repeated = [seconds, *(_seconds(render, trial) for _ in range(REPETITIONS))]
            return median(repeated) / (small.width * small.height * len(cameras))
        pixels *= 4


def _seconds(render: Callable[[Camera], Any], cameras: Sequence[Camera]) -> float:
    start = time.perf_counter()
    for camera in cameras:
        mx.eval(render(camera))
    return time.perf_counter() - start
