"""`Matter`: where a run may have matter: the occupied cells of its grid, to be looked up."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nerfmac.geometry.bounds import CENTRE, Bounds
from nerfmac.geometry.cells import Cells, cells_of, number_of
from nerfmac.ops.march import Occupied

Coordinates = npt.NDArray[np.float64]


class Matter:
    """The cells of `occupied`; without any (None) there may be matter all over the cube."""

    def __init__(self, occupied: Occupied | None, extent: float) -> None:
        """Unpacks the cells' bits to bytes. `extent` is the side of the scene's cube."""
        self._geometry, self._bounds = None, Bounds(extent)
        if occupied is not None:
            self._geometry = occupied.geometry
            words = np.array(occupied.bits).astype("<u4")
            self._is_set = np.unpackbits(words.view(np.uint8), bitorder="little").astype(bool)

    def at(self, x: Coordinates, y: Coordinates, z: Coordinates) -> npt.NDArray[np.bool_]:
        """Whether the scene positions (x, y, z), of shapes that broadcast, are in occupied cells.

        The cell is that of the smallest cascade around a position. Outside of the scene's cube
        there is none.
        """
        shape = np.broadcast_shapes(x.shape, y.shape, z.shape)
        near = [self._bounds.holds(each[..., None], 1e-6) for each in (x, y, z)]
        in_cube = near[0] & near[1] & near[2]
        if self._geometry is None:
            return np.broadcast_to(in_cube, shape)
        resolution, found = self._geometry.resolution, np.zeros(shape, bool)
        inner = np.zeros(shape, bool)  # what smaller cascades hold
        for cascade in range(self._bounds.cascades):
            places = [((each - CENTRE) / 2.0**cascade + 0.5) * resolution for each in (x, y, z)]
            within = [(place >= 0) & (place <= resolution) for place in places]
            cells = [np.clip(place, 0, resolution - 1).astype(np.int32) for place in places]
            number = number_of(Cells(np.int32(cascade), *cells), resolution)
            is_inside = within[0] & within[1] & within[2]
            found |= is_inside & ~inner & self._is_set[number]
            inner = is_inside
        return found & in_cube

    def innermost(self) -> tuple[Coordinates, Coordinates] | None:
        """The lowest and highest corner (3,) of all occupied cells of the unit cube; None if none.

        Without cells it is the unit cube.
        """
        if self._geometry is None:
            return np.zeros(3), np.ones(3)
        resolution = self._geometry.resolution
        (found,) = np.nonzero(self._is_set[: resolution**3])
        if not len(found):
            return None
        places = np.stack(cells_of(found, resolution)[1:], axis=1)
        return places.min(axis=0) / resolution, (places.max(axis=0) + 1) / resolution
