"""The density grid of a snapshot: infinities that are read, and cells that are resampled."""

import numpy as np
import pytest

from nerfmac.app.snapshots.density_grid import read_grid, written_grid
from nerfmac.common.checks import InputError
from nerfmac.geometry.cells import Cells, number_of
from tests.app.snapshots import instant_ngp as ngp


def with_cells(value, dtype=np.float16):
    """A grid of 16^3 cells whose cell (3, 5, 8) has `value`."""
    grid = np.full(16**3, -1.0, dtype)
    grid[ngp.morton(3, 5, 8)] = value
    return grid.tobytes()


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_an_infinite_cell_is_an_occupied_one(dtype):
    values = read_grid(with_cells(np.inf, dtype), 16, 1, "x.ingp")
    (occupied,) = np.nonzero(values > 0)
    assert occupied == [number_of(Cells(0, 3, 5, 8), 16)]
    assert np.isfinite(values).all()


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_a_cell_without_a_meaning_is_refused(value):
    with pytest.raises(InputError, match=r"x\.ingp: density_grid_binary holds NaN"):
        read_grid(with_cells(value), 16, 1, "x.ingp")


@pytest.mark.parametrize("resolution", [32, 48, 128, 256])
def test_a_written_cell_is_occupied_if_one_that_it_overlaps_is(resolution):
    random, cascades = np.random.default_rng(6), 2
    values = np.where(random.random(cascades * resolution**3) < 0.1, 0.5, -1.0).astype(np.float32)
    grid = np.frombuffer(written_grid(values, resolution, cascades), np.float16)
    assert grid.shape == (cascades * 128**3,)
    found = set()
    for cascade, *cell in random.integers(0, (cascades, 128, 128, 128), (400, 4)).tolist():
        first = [place * resolution // 128 for place in cell]
        end = [-(-(place + 1) * resolution // 128) for place in cell]
        ranges = (np.arange(low, high) for low, high in zip(first, end, strict=True))
        overlapped = number_of(Cells(cascade, *np.meshgrid(*ranges)), resolution)
        written = grid[cascade * 128**3 + ngp.morton(*cell)]
        assert written == values[overlapped].max()
        found.add(float(written))
    assert found == {0.5, -1.0}


def test_values_beyond_half_precision_are_written_as_its_largest():
    grid = np.frombuffer(written_grid(np.full(128**3, 1e9, np.float32), 128, 1), np.float16)
    assert (grid == np.finfo(np.float16).max).all()
