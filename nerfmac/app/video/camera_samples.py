"""Camera samples of a frame, spread over the pixel area, the aperture, and the shutter time.

A frame is the mean of the images that are rendered from its camera samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from nerfmac.common import checks
from nerfmac.geometry.cameras import Camera

CameraSamples = Sequence[Camera]
"""Type of the cameras of one frame, at consecutive times. Without motion blur, a frame has one
camera."""

PLASTIC = 1.32471795724474602596
"""Real root of x^3 = x + 1. Multiples of its inverse powers, modulo 1, are evenly distributed in
the unit square.

Roberts: The unreasonable effectiveness of quasirandom sequences (2018).
"""


def spread(
    frame: CameraSamples, samples: int, aperture: float = 0.0, focus: float = 1.0
) -> CameraSamples:
    """Create the camera samples of a frame, at least one per camera.

    The cameras are shifted within the pixel and on the aperture, whose radius is in scene units,
    like the focus distance. A single sample is the unchanged camera.
    """
    count = max(samples, len(frame))
    if count == 1:
        return frame
    shifts, squares = _evenly_spread(count, 0.5) - 0.5, _evenly_spread(count, 0.25)
    return [
        _moved(frame[index % len(frame)], shifts[index], aperture * _on_disc(squares[index]), focus)
        for index in range(count)
    ]


def blurred(
    path: Callable[[int], Sequence[Camera]], frames: int, moments: int, shutter: float
) -> list[CameraSamples]:
    """Create the `moments` cameras of each frame with motion blur.

    `path` returns a given number of cameras at equal time intervals. `shutter` is the fraction of
    the frame time during which the shutter is open, from 0.001 to 1.
    """
    checks.number("shutter", shutter, low=1e-3, high=1.0)
    steps = max(round(moments / shutter), moments)
    cameras = path(frames * steps)
    return [cameras[i * steps : i * steps + moments] for i in range(frames)]


def _moved(
    camera: Camera, shift: npt.NDArray[np.float64], offset: npt.NDArray[np.float64], focus: float
) -> Camera:
    """Shift a camera's principal point by `shift` (2,) in pixels, and its position by `offset` (2,)
    to the right and up in scene units, so that points at the distance `focus` do not move in the
    image."""
    lens, (right, up) = camera.lens, offset
    cx = lens.cx + shift[0] + right * lens.fl_x / focus
    cy = lens.cy + shift[1] - up * lens.fl_y / focus
    pose = camera.pose.copy()
    pose[:, 3] += pose[:, 0] * right + pose[:, 1] * up
    return Camera(replace(lens, cx=float(cx), cy=float(cy)), pose)


def _evenly_spread(count: int, start: float) -> npt.NDArray[np.float64]:
    """Return points (count, 2) evenly distributed in the unit square, shifted by `start`."""
    steps = np.array([1.0 / PLASTIC, 1.0 / PLASTIC**2])
    return (start + np.arange(1, count + 1)[:, None] * steps) % 1.0


def _on_disc(point: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Map a point of the unit square to the unit disc. The map preserves ratios of areas."""
    angle = 2.0 * math.pi * point[1]
    return math.sqrt(point[0]) * np.array([math.cos(angle), math.sin(angle)])
