"""How long pictures take to render, so that no more of them are begun than there is time for."""

from __future__ import annotations

import time

import mlx.core as mx

from nerfmac.geometry.cameras import Camera
from nerfmac.rendering.renderer import Renderer

TRIAL = 2**13
"""Pixels that are rendered to measure the pace, about."""


def seconds_per_pixel(renderer: Renderer, camera: Camera) -> float:
    """Seconds that a pixel of `camera`'s picture takes, measured on rows in its middle.

    There the scene is, so that most pictures take less than this promises.
    """
    trial = middle_rows(camera, max(1, min(TRIAL // camera.lens.width, camera.lens.height)))
    seconds = 0.0
    for _ in range(2):  # the first also compiles
        start = time.perf_counter()
        mx.eval(renderer.pixels(trial, (1.0, 1.0, 1.0)))
        seconds = time.perf_counter() - start
    return seconds / (trial.lens.width * trial.lens.height)


def middle_rows(camera: Camera, count: int) -> Camera:
    """The camera that takes `count` rows of `camera`'s picture alone, in its middle."""
    return Camera(camera.lens.rows((camera.lens.height - count) // 2, count), camera.pose)


def spread(count: int) -> list[int]:
    """The numbers 0 to `count` - 1 in an order in which those up to any point are spread evenly.

    It is van der Corput's sequence: 0, then the half, the quarters, the eighths and so on.
    """
    bits = (count - 1).bit_length()
    halves = (int(f"{i:0{bits}b}"[::-1], 2) for i in range(2**bits))
    return list(dict.fromkeys(half * count >> bits for half in halves))
