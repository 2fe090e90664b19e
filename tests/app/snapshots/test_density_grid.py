"""The density grid of a snapshot: infinities that are read."""

import numpy as np
import pytest

from nerfmac.app.snapshots.reading import read_grid
from nerfmac.geometry.cells import Cells, number_of
from tests.app.snapshots import instant_ngp as ngp


def with_cells(value, dtype=np.float16):
    """A grid of 16^3 cells with `value` in cell (3, 5, 8)."""
    grid = np.full(16**3, -1.0, dtype)
    grid[ngp.morton(3, 5, 8)] = value
    return grid.tobytes()


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_an_infinite_cell_is_an_occupied_one(dtype):
    values = read_grid(with_cells(np.inf, dtype), 16, 1, "x.ingp")
    (occupied,) = np.nonzero(values > 0)
    assert occupied == [number_of(Cells(0, 3, 5, 8), 16)]
    assert np.isfinite(values).all()
