"""`Region`: the axis-aligned box that is exported.

A user names a box in the coordinates of the scene's files. Without one it is the smallest box that
holds all occupied cells of the unit cube: what the cameras look at, without far surroundings.
"""

from __future__ import annotations

import logging
from itertools import product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nerfmac.common.checks import InputError, finite
from nerfmac.export.matter import Matter
from nerfmac.geometry.bounds import Bounds
from nerfmac.rendering.crop import Box
from nerfmac.scenes.placement import Placement

log = logging.getLogger("nerfmac")


class Region(NamedTuple):
    """A box in the coordinates of the scene's files, by its lowest and highest corners (3,)."""

    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]

    def holds(self, position: npt.NDArray[np.floating]) -> npt.NDArray[np.bool_]:
        """(points,) bool: which of `position` (points, 3) lie in the box."""
        return np.all((position >= self.low) & (position <= self.high), axis=1)


def region_of(crop: Box | None, placement: Placement, extent: float, matter: Matter) -> Region:
    """The box to export, within the box around the scene's cube of side `extent`.

    `crop` is in the coordinates of the scene's files, its lowest corner first.
    Raises `InputError` for a crop that is no box or lies outside of the cube, and without a crop if
    nothing is occupied.
    """
    cube = _around(Bounds(extent).corners, placement)
    if crop is None:
        innermost = matter.innermost()
        if innermost is None:
            raise InputError("the run's occupancy grid is empty: there is nothing to export")
        asked = _around(innermost, placement)
        log.info("the box is %s; a crop names another", _shown(asked))
    else:
        asked = Region(*finite("crop", crop, (2, 3)))
        if (asked.low >= asked.high).any():
            raise InputError(
                f"crop is {_shown(crop)}; expected its lowest corner, then its highest"
            )
    region = Region(np.maximum(asked.low, cube.low), np.minimum(asked.high, cube.high))
    if (region.low >= region.high).any():
        raise InputError(f"the crop {_shown(crop)} is outside of the scene's cube, {_shown(cube)}")
    return region


def _around(
    box: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]], placement: Placement
) -> Region:
    """The box in the files' coordinates around a box of scene space, given by its two corners."""
    corners = placement.to_file([(x, y, z) for x, y, z in product(*zip(*box, strict=True))])
    return Region(corners.min(axis=0), corners.max(axis=0))


def _shown(crop: object) -> str:
    numbers = np.asarray(crop, np.float64)
    return " to ".join("(" + ", ".join(f"{each:g}" for each in row) + ")" for row in numbers)
