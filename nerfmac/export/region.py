"""`Region`: the axis-aligned box that is exported.

A user names a box in the coordinates of the scene's files. Without one it is the smallest box that
holds all occupied cells of the unit cube: what the cameras look at, without far surroundings.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nerfmac.checks import InputError, finite
from nerfmac.export.matter import Matter
from nerfmac.scenes.placement import Placement

log = logging.getLogger("nerfmac")

Box = tuple[tuple[float, float, float], tuple[float, float, float]]
"""Lowest and highest corner, in the coordinates of the scene's files."""


class Region(NamedTuple):
    """A box in scene space, by its lowest and highest corners (3,)."""

    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]

    def holds(self, position: npt.NDArray[np.floating]) -> npt.NDArray[np.bool_]:
        """(points,) bool: which of `position` (points, 3) lie in the box."""
        return np.all((position >= self.low) & (position <= self.high), axis=1)


def region_of(crop: Box | None, placement: Placement, extent: float, matter: Matter) -> Region:
    """The box to export, within the scene's cube of side `extent`.

    Raises `InputError` for a crop that is no box or lies outside of the cube, and without a crop if
    nothing is occupied.
    """
    cube = Region(np.full(3, 0.5 - extent / 2), np.full(3, 0.5 + extent / 2))
    if crop is None:
        innermost = matter.innermost()
        if innermost is None:
            raise InputError("the run's occupancy grid is empty: there is nothing to export")
        asked = Region(*innermost)
        ends = _shown([placement.to_file(corner) for corner in asked])
        log.info("the box is %s; a crop names another", ends)
    else:
        corners = placement.to_scene(finite("crop", crop, (2, 3)))
        if (corners[0] >= corners[1]).any():
            raise InputError(
                f"crop is {_shown(crop)}; expected its lowest corner, then its highest"
            )
        asked = Region(*corners)
    region = Region(np.maximum(asked.low, cube.low), np.minimum(asked.high, cube.high))
    if (region.low >= region.high).any():
        ends = _shown([placement.to_file(corner) for corner in cube])
        raise InputError(f"the crop {_shown(crop)} is outside of the scene's cube, {ends}")
    return region


def _shown(crop: object) -> str:
    numbers = np.asarray(crop, np.float64)
    return " to ".join("(" + ", ".join(f"{each:g}" for each in row) + ")" for row in numbers)
