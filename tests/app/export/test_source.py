"""Occupied regions of a run: exactly the cells with a bit set."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.app.export.source import OccupiedCells
from nerfmac.geometry.bounds import Bounds
from nerfmac.geometry.cells import Cells, number_of
from nerfmac.ops.march import MarchGeometry, Occupied

RESOLUTION = 16
GEOMETRY = MarchGeometry(Bounds(3.1), RESOLUTION, 0.1, 0.01, 0.0)  # three cascades


def matter(*cells):
    bits = np.zeros(GEOMETRY.cells, bool)
    for cell in cells:
        bits[number_of(Cells(*cell), RESOLUTION)] = True
    words = np.packbits(bits, bitorder="little").view("<u4")
    return OccupiedCells(Occupied(GEOMETRY, mx.array(words)), GEOMETRY.bounds.extent)


def middle(cascade, *place):
    return 0.5 + 2.0**cascade * ((np.array(place) + 0.5) / RESOLUTION - 0.5)


@pytest.mark.parametrize("cell", [(0, 3, 7, 12), (0, 0, 15, 1), (1, 2, 9, 5), (2, 13, 4, 8)])
def test_matter_is_in_the_cells_that_are_occupied_and_not_around_them(cell):
    there, side = matter(cell), 2.0 ** cell[0] / RESOLUTION
    center = middle(*cell)
    for axis in range(3):
        for steps, is_there in ((-0.51, False), (-0.49, True), (0.49, True), (0.51, False)):
            assert there.hold(center + steps * side * np.eye(3)[axis]) == is_there


def test_a_larger_cascades_cell_counts_only_beyond_the_smaller_one():
    covered = (1, 6, 8, 9)  # within the unit cube
    assert not matter(covered).hold(middle(*covered))


def test_outside_of_the_scenes_cube_there_is_nothing():
    bits = mx.full(GEOMETRY.cells // 32, 2**32 - 1, mx.uint32)
    x = np.array([-1.06, -1.04, 0.5, 2.04, 2.06])
    everywhere = OccupiedCells(Occupied(GEOMETRY, bits), GEOMETRY.bounds.extent)
    position = np.stack([x, np.full(5, 0.4), np.full(5, 0.7)], axis=1)
    assert everywhere.hold(position).tolist() == [False, *[True] * 3, False]


def test_the_innermost_box_holds_the_occupied_cells_of_the_unit_cube():
    low, high = matter((0, 3, 7, 12), (0, 5, 7, 2), (2, 0, 0, 0)).innermost()
    assert low.tolist() == [3 / 16, 7 / 16, 2 / 16]
    assert high.tolist() == [6 / 16, 8 / 16, 13 / 16]
    assert matter((2, 0, 0, 0)).innermost() is None


def test_without_a_grid_there_may_be_matter_everywhere():
    anywhere = OccupiedCells(None, 4.0)
    x = np.array([-1.6, -1.4, 0.5, 2.4, 2.6])
    found = anywhere.hold(np.stack([x, np.zeros(5), np.ones(5)], axis=1))
    assert found.tolist() == [False, True, True, True, False]
    low, high = anywhere.innermost()
    assert (low.tolist(), high.tolist()) == ([0.0] * 3, [1.0] * 3)
