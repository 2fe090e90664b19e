"""Moves: closed camera paths around the point that the training cameras look at.

    orbit             one turn, with the elevation and distance of the nearby training cameras
    spiral            two turns from low to high and back
    figure_of_eight   a horizontal figure of eight in front of the scene

If the training cameras show only one side, an orbit swings back and forth, and a spiral consists of
circles that grow and shrink. The camera looks at the center of the rig (`paths.rig`) with a level
horizon, from directions within the range of the training cameras.
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

STEEP = math.radians(20.0)  # Maximum difference in elevation from the middle of a spiral.
EIGHT = math.radians(50.0), math.radians(10.0)  # Maximum half width and half height, in radians.


@dataclass(frozen=True)
class Move:
    """Move around a scene: a callable that creates the cameras of a closed path from training
    cameras.

    Attributes:
        camera_at: Function of a `Rig` and an angle from 0 (start of the path) to 2 pi (end). The
            function returns the camera at this position on the path.
        seconds: Default duration of the path in seconds.
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

        An orbit with a full turn is counter-clockwise as seen from above. The path is closed, so
        that the first camera follows the last one.

        Args:
            cameras: Training cameras.
            up: Up direction (3,) of the scene, of any length.
            frames: Number of cameras.
            size: Width and height of a frame in pixels, rounded down to even numbers. By default,
                the size of the first camera.
            center: Point (3,) to look at. By default, the point closest to the camera axes.

        Returns:
            `frames` cameras in scene coordinates, without lens distortion.

        Raises:
            InputError: If `cameras` is empty, if all cameras have the same position and direction,
                or if a number is out of range.
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
    """Return the azimuth of the middle of the camera arc and half the width of the arc, in radians.
    For a full circle, the azimuth is its start."""
    start, arc = rig.arc
    return (start, 0.5 * arc) if rig.goes_round else (start + 0.5 * arc, 0.5 * arc)


def _between(low: float, high: float, position: float) -> float:
    """Interpolate linearly from `low` at position -1 to `high` at position 1."""
    return 0.5 * (low + high) + 0.5 * (high - low) * position


orbit = Move(_orbit, 5.0)
spiral = Move(_spiral, 10.0)
figure_of_eight = Move(_figure_of_eight, 6.0)

MOVES = {
    "orbit": orbit,
    "spiral": spiral,
    "figure-of-eight": figure_of_eight,
}
"""Moves, keyed by their names in the command line and in the viewer."""
