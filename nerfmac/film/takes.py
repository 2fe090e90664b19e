"""Takes: the cameras of which a frame is the mean, spread over pixels, aperture and time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from nerfmac.common import checks
from nerfmac.geometry.cameras import Camera

Take = Sequence[Camera]
"""The cameras at the moments of one frame: one, or several while the shutter is open."""

PLASTIC = 1.32471795724474602596
"""The root of x^3 = x + 1; its powers spread points evenly over a square.

Roberts: The unreasonable effectiveness of quasirandom sequences (2018).
"""


def spread(take: Take, samples: int, aperture: float = 0.0, focus: float = 1.0) -> Take:
    """At least `samples` cameras that see what those of `take` see, elsewhere in their pixels.

    With an `aperture`, its radius in scene units, they also stand elsewhere on the lens, and agree
    about what is `focus` scene units ahead. For one sample a single camera is itself.
    """
    count = max(samples, len(take))
    if count == 1:
        return take
    shifts, discs = _even(count, 0.5) - 0.5, _even(count, 0.25)
    return [
        _moved(take[index % len(take)], shifts[index], aperture * _on_disc(discs[index]), focus)
        for index in range(count)
    ]


def blurred(
    along: Callable[[int], Sequence[Camera]], frames: int, moments: int, shutter: float
) -> list[Take]:
    """`frames` takes of so many `moments` each; `along` gives any number of cameras on the path.

    The shutter is open for the fraction `shutter` of the time from frame to frame.
    """
    checks.number("shutter", shutter, low=1e-3, high=1.0)
    steps = max(round(moments / shutter), moments)
    cameras = along(frames * steps)
    return [cameras[i * steps : i * steps + moments] for i in range(frames)]


def _moved(
    camera: Camera, shift: npt.NDArray[np.float64], place: npt.NDArray[np.float64], focus: float
) -> Camera:
    """The camera with its pixels shifted, at the `place` (2,) on its lens, right and up."""
    lens, (right, up) = camera.lens, place
    cx = lens.cx + shift[0] + right * lens.fl_x / focus
    cy = lens.cy + shift[1] - up * lens.fl_y / focus
    pose = camera.pose.copy()
    pose[:, 3] += pose[:, 0] * right + pose[:, 1] * up
    return Camera(replace(lens, cx=float(cx), cy=float(cy)), pose)


def _even(count: int, start: float) -> npt.NDArray[np.float64]:
    """(count, 2) points spread evenly over the unit square."""
    steps = np.array([1.0 / PLASTIC, 1.0 / PLASTIC**2])
    return (start + np.arange(1, count + 1)[:, None] * steps) % 1.0


def _on_disc(point: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """A point of the unit disc for one of the unit square, areas kept in proportion."""
    angle = 2.0 * math.pi * point[1]
    return math.sqrt(point[0]) * np.array([math.cos(angle), math.sin(angle)])
