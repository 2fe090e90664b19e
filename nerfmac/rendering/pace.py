"""Measurement of the rendering time per pixel, to estimate how many images fit in a given time."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import mlx.core as mx

from nerfmac.geometry.cameras import Camera
from nerfmac.rendering.renderer import Renderer

TRIAL = 2**11
"""Approximate number of pixels that the first trial renders, in total over all cameras."""
TRIAL_SECONDS = 0.1
"""Minimum duration in seconds of a reduced-size trial. Shorter trials measure launch overhead on a
GPU instead of throughput."""


def seconds_per_pixel(renderer: Renderer, cameras: Sequence[Camera]) -> float:
    """Measure the rendering time in seconds per pixel by rendering smaller images from all cameras.

    All images use the first camera's lens, scaled to the smaller size.
    """
    lens, pixels = cameras[0].lens, TRIAL
    while True:
        scale = min(1.0, math.sqrt(pixels / (lens.width * lens.height * len(cameras))))
        small = lens.scaled(max(round(lens.width * scale), 1), max(round(lens.height * scale), 1))
        seconds = _seconds(renderer, [Camera(small, camera.pose) for camera in cameras])
        if seconds >= TRIAL_SECONDS or scale == 1.0:
            return seconds / (small.width * small.height * len(cameras))
        pixels *= 8


def _seconds(renderer: Renderer, cameras: Sequence[Camera]) -> float:
    mx.eval(renderer.pixels(cameras[0], (1.0, 1.0, 1.0)))  # compiles
    start = time.perf_counter()
    for camera in cameras:
        mx.eval(renderer.pixels(camera, (1.0, 1.0, 1.0)))
    return time.perf_counter() - start


def middle_rows(camera: Camera, count: int) -> Camera:
    """Return a copy of `camera` cropped to the middle `count` rows of its image."""
    return Camera(camera.lens.rows((camera.lens.height - count) // 2, count), camera.pose)


def spread(count: int) -> list[int]:
    """Return the numbers 0 to `count` - 1 in an order in which every prefix is evenly spaced.

    The order is the van der Corput sequence: 0, then the half, the quarters, the eighths, and so
    on.
    """
    bits = (count - 1).bit_length()
    halves = (int(f"{i:0{bits}b}"[::-1], 2) for i in range(2**bits))
    return list(dict.fromkeys(half * count >> bits for half in halves))
