"""Moves around the point that training cameras look at. All moves are closed, so that videos can
loop.

    orbit             one turn at the height and distance of the cameras on each side; if the
                      cameras saw one side only, the path swings back and forth
    spiral            two turns from low to high and back; if the cameras saw one side only, circles
                      that grow and shrink again
    figure_of_eight   a horizontal figure of eight in front of the scene

In all moves, the camera looks at the center of the rig with a level horizon, and stays within the
angles of the training cameras (`paths.rig`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nerfmac.app.paths.rig import CIRCLE, Rig
from nerfmac.common import checks
from nerfmac.geometry.cameras import Camera

STEEP = math.radians(20.0)
"""Maximum difference between the elevation of a spiral and its middle elevation, in radians."""

EIGHT = math.radians(50.0), math.radians(10.0)
"""Maximum half width and half height of a figure of eight, as angles around the center in
radians."""


@dataclass(frozen=True)
class Move:
    """Function that fits a closed camera path to training cameras.

    `camera_at(rig, turn)` returns the camera at `turn`, from 0 to 2 pi. `seconds` is the default
    duration.
    """

    camera_at: Callable[[Rig, float], Camera]
    seconds: float

    def __call__(
        self,
        cameras: Sequence[Camera],
        *,
        up: npt.ArrayLike,
        frames: int,
        size: tuple[int, int] | None = None,
        center: npt.ArrayLike | None = None,
    ) -> list[Camera]:
        """Fit a closed path to training cameras.

        A full orbit is counter-clockwise as seen from above. The first frame follows the last.

        Args:
            cameras: Training cameras.
            up: Up direction (3,) of the scene, of any length.
            frames: Number of cameras.
            size: Width and height of a frame in pixels, rounded down to even numbers. By default,
                the size of the first camera.
            center: Point (3,) to look at. By default, the point closest to the camera axes.

        Returns:
            `frames` cameras without distortion in scene coordinates.

        Raises:
            InputError: If there are no cameras, all cameras have the same position and direction,
                or a number is out of range.
        """
        checks.number("frames", frames, low=1, whole=True)
        rig = Rig.of(cameras, up, size, center)
        return [self.camera_at(rig, turn) for turn in CIRCLE * np.arange(frames) / frames]


def _orbit(rig: Rig, turn: float) -> Camera:
    start, arc = rig.arc
    azimuth = start + (turn if rig.goes_round else 0.5 * arc * (1.0 + math.sin(turn)))
    return rig.camera(azimuth, *rig.place_at(azimuth))


def _spiral(rig: Rig, turn: float) -> Camera:
    start, arc = rig.arc
    low, high = rig.heights(STEEP)
    grown = 0.5 - 0.5 * math.cos(turn)
    if rig.goes_round:
        return rig.camera(start + 2.0 * turn, low + grown * (high - low))
    across, above = grown * math.sin(2.0 * turn), grown * math.cos(2.0 * turn)
    return rig.camera(start + 0.5 * arc * (1.0 + across), _between(low, high, above))


def _figure_of_eight(rig: Rig, turn: float) -> Camera:
    middle, half = _front(rig)
    low, high = rig.heights(EIGHT[1])
    azimuth = middle + min(half, EIGHT[0]) * math.sin(turn)
    return rig.camera(azimuth, _between(low, high, math.sin(2.0 * turn)))


def _front(rig: Rig) -> tuple[float, float]:
    """Return the azimuth of the center of the camera arc and half its width, in radians."""
    start, arc = rig.arc
    return (start, 0.5 * arc) if rig.goes_round else (start + 0.5 * arc, 0.5 * arc)


def _between(low: float, high: float, position: float) -> float:
    """Interpolate linearly between `low` at the position -1 and `high` at 1."""
    return 0.5 * (low + high) + 0.5 * (high - low) * position


orbit = Move(_orbit, 5.0)
spiral = Move(_spiral, 10.0)
figure_of_eight = Move(_figure_of_eight, 6.0)

MOVES = {
    "orbit": orbit,
    "spiral": spiral,
    "figure-of-eight": figure_of_eight,
}
"""Moves by name. The names are used in the command line and in the viewer."""
