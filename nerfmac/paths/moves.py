"""Moves around what the training cameras look at. All of them are closed: a video may be looped.

    orbit             once round at one height; to and fro where one side is unknown
    spiral            twice round, from low to high and back; circles that grow and shrink again,
                      where one side is unknown
    figure_of_eight   an eight, lying on its side, in front of the scene
    dolly_zoom        nearer and away while the zoom keeps the centre's size (Hitchcock, Vertigo)

All look at the rig's centre with a level horizon, and none leaves the angles that the training
cameras saw it from (`paths.rig`). A dolly zoom leaves their distances.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from nerfmac.common import checks
from nerfmac.geometry.cameras import Camera
from nerfmac.paths.rig import CIRCLE, Rig

STEEP = math.radians(20.0)
"""How far a spiral leaves its middle height, at most, in either direction."""

EIGHT = math.radians(50.0), math.radians(10.0)
"""Half of an eight's width and height, at most."""

NEAREST, FARTHEST = 0.5, 1.5
"""Distances at the ends of a dolly zoom, in units of the rig's; a narrow lens comes nearer."""

NEAREST_ANGLE = math.radians(86.0)
"""Angle of view of a frame's shorter side at a dolly zoom's nearest end, if the lens is narrow.

The camera stays outside the largest ball that the frame shows, as the angle is below 90 degrees.
"""


def orbit(
    cameras: Sequence[Camera],
    *,
    up: npt.ArrayLike,
    frames: int,
    size: tuple[int, int] | None = None,
    centre: npt.ArrayLike | None = None,
) -> list[Camera]:
    """Return `frames` cameras on a closed path fitted to the training `cameras`.

    `up` is the scene's upright direction `(3,)`, of any length. `size` is the width and height of
    a frame in pixels, by default the first camera's; both are rounded down to even, as video needs.
    `centre` (3,) is what to look at, by default the point that the cameras' axes come closest to.
    The path's lens has no distortion. A full orbit goes counter-clockwise as seen from above; the
    first frame follows the last. Raises `InputError` for no cameras, cameras that are all at one
    place and look in one direction, and bad numbers.
    """

    def at(rig: Rig, turn: float) -> Camera:
        start, arc = rig.arc
        if rig.goes_round:
            return rig.camera(start + turn, rig.level)
        return rig.camera(start + 0.5 * arc * (1.0 + math.sin(turn)), rig.level)

    return _cameras(at, Rig.of(cameras, up, size, centre), frames)


def spiral(
    cameras: Sequence[Camera],
    *,
    up: npt.ArrayLike,
    frames: int,
    size: tuple[int, int] | None = None,
    centre: npt.ArrayLike | None = None,
) -> list[Camera]:
    """Return `frames` cameras on a spiral; arguments and errors are those of `orbit`."""

    def at(rig: Rig, turn: float) -> Camera:
        start, arc = rig.arc
        low, high = rig.heights(STEEP)
        grown = 0.5 - 0.5 * math.cos(turn)
        if rig.goes_round:
            return rig.camera(start + 2.0 * turn, low + grown * (high - low))
        across, over = grown * math.sin(2.0 * turn), grown * math.cos(2.0 * turn)
        return rig.camera(start + 0.5 * arc * (1.0 + across), _between(low, high, over))

    return _cameras(at, Rig.of(cameras, up, size, centre), frames)


def figure_of_eight(
    cameras: Sequence[Camera],
    *,
    up: npt.ArrayLike,
    frames: int,
    size: tuple[int, int] | None = None,
    centre: npt.ArrayLike | None = None,
) -> list[Camera]:
    """Return `frames` cameras on an eight; arguments and errors are those of `orbit`."""

    def at(rig: Rig, turn: float) -> Camera:
        middle, half = _front(rig)
        low, high = rig.heights(EIGHT[1])
        half = min(half, EIGHT[0])
        elevation = _between(low, high, math.sin(2.0 * turn))
        return rig.camera(middle + half * math.sin(turn), elevation)

    return _cameras(at, Rig.of(cameras, up, size, centre), frames)


def dolly_zoom(
    cameras: Sequence[Camera],
    *,
    up: npt.ArrayLike,
    frames: int,
    size: tuple[int, int] | None = None,
    centre: npt.ArrayLike | None = None,
) -> list[Camera]:
    """Return `frames` cameras on a dolly zoom; arguments and errors are those of `orbit`."""

    def at(rig: Rig, turn: float) -> Camera:
        wide = min(rig.lens.width, rig.lens.height) / (2.0 * rig.lens.fl_x)
        nearest = min(NEAREST, wide / math.tan(0.5 * NEAREST_ANGLE))
        # The perspective follows the ratio of distances, which changes evenly.
        away = math.exp(_between(math.log(nearest), math.log(FARTHEST), math.cos(turn)))
        return rig.zoomed(away).camera(_front(rig)[0], rig.level, away)

    return _cameras(at, Rig.of(cameras, up, size, centre), frames)


def _cameras(at: Callable[[Rig, float], Camera], rig: Rig, frames: int) -> list[Camera]:
    """The cameras that `at` gives at `frames` angles from 0 to one turn, which is left out."""
    checks.number("frames", frames, low=1, whole=True)
    return [at(rig, turn) for turn in CIRCLE * np.arange(frames) / frames]


def _front(rig: Rig) -> tuple[float, float]:
    """An azimuth to look from, and how far around it the cameras reach on both sides."""
    start, arc = rig.arc
    return (start, 0.5 * arc) if rig.goes_round else (start + 0.5 * arc, 0.5 * arc)


def _between(low: float, high: float, place: float) -> float:
    """`low` for -1, `high` for 1."""
    return 0.5 * (low + high) + 0.5 * (high - low) * place
