"""Moves around the point that training cameras look at; all are closed, so videos can be looped.

    orbit             once round, at the height and distance of the cameras on each side; to and
                      fro if they saw one side only
    spiral            twice round, from low to high and back; circles that grow and shrink again
                      if the cameras saw one side only
    figure_of_eight   an eight, lying on its side, in front of the scene

All look at the rig's center with a level horizon, and stay within the angles from which the
training cameras saw it (`paths.rig`).
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
"""Largest angle of a spiral above and below its middle elevation, in radians."""

EIGHT = math.radians(50.0), math.radians(10.0)
"""Largest half width and half height of an eight, as angles around the center in radians."""


@dataclass(frozen=True)
class Move:
    """A function that fits a closed camera path to training cameras.

    `camera_at(rig, turn)` is the camera at `turn` from 0 to 2 pi; `seconds` is a usual duration.
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
        """Return `frames` cameras on a closed path fitted to the training `cameras`.

        `up` (3,) is the scene's direction to the sky, of any length. `size` is the width and height
        of a frame in pixels, by default the first camera's; both are rounded down to even, as video
        needs. `center` (3,) is the point to look at, by default the one closest to the cameras'
        axes. The path's lens has no distortion. A full orbit goes counter-clockwise as seen from
        above; the first frame follows the last. Raises InputError for no cameras, cameras that are
        all at one position and look in one direction, and bad numbers.
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
    """Azimuth of the middle of the cameras' arc, and the arc's half width, in radians."""
    start, arc = rig.arc
    return (start, 0.5 * arc) if rig.goes_round else (start + 0.5 * arc, 0.5 * arc)


def _between(low: float, high: float, position: float) -> float:
    """Linear interpolation: `low` for position -1, `high` for 1."""
    return 0.5 * (low + high) + 0.5 * (high - low) * position


orbit = Move(_orbit, 5.0)
spiral = Move(_spiral, 10.0)
figure_of_eight = Move(_figure_of_eight, 6.0)

MOVES = {
    "orbit": orbit,
    "spiral": spiral,
    "figure-of-eight": figure_of_eight,
}
"""The moves by their names on the command line and in the viewer."""
