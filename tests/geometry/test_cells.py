"""Cells' numbers: every cell has one, and the 32 of a word of bits are neighbors."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.geometry.bounds import Bounds
from nerfmac.geometry.cells import BRICK, Cells, cells_of, corners_of, number_of
from nerfmac.ops.march import MarchGeometry, cell_of
from tests.bricks import in_bricks, out_of_bricks

CASCADES, SIDE = 3, 16


def everywhere():
    """(cascade, z, y, x) of all cells, each (CASCADES, SIDE, SIDE, SIDE)."""
    return np.indices((CASCADES, SIDE, SIDE, SIDE), np.int32)


def test_every_cell_has_a_number_of_its_own_and_comes_back_from_it():
    cascade, z, y, x = (mx.array(each) for each in everywhere())
    number = number_of(Cells(cascade, x, y, z), SIDE)
    assert number.dtype == mx.int32
    assert sorted(np.array(number).ravel()) == list(range(CASCADES * SIDE**3))
    back = cells_of(number, SIDE)
    for got, want in zip(back, (cascade, x, y, z), strict=True):
        assert mx.array_equal(got, want)


def test_the_cells_of_a_word_are_a_brick_and_go_x_y_z():
    cells = np.stack(cells_of(mx.arange(CASCADES * SIDE**3), SIDE), axis=-1).reshape(-1, 32, 4)
    corner = cells[:, :1]
    assert (corner[..., 1:] % np.array(BRICK) == 0).all()
    within = (cells - corner)[..., 1:]
    want = [(x, y, z) for z in range(2) for y in range(4) for x in range(4)]
    assert (within == want).all()
    assert (cells[..., 0] == corner[..., 0]).all()


@pytest.mark.parametrize("number", [0, 31, 32, 127, 128, 4095, 4096, 8191])
def test_cascades_follow_one_another(number):
    assert cells_of(mx.array(number), SIDE).cascade.item() == number // SIDE**3


def test_the_tests_own_order_is_the_same():
    cascade, z, y, x = everywhere()
    number = np.array(number_of(Cells(*map(mx.array, (cascade, x, y, z))), SIDE))
    assert (in_bricks(number) == np.arange(CASCADES * SIDE**3)).all()
    assert (out_of_bricks(np.arange(CASCADES * SIDE**3), SIDE) == number).all()


def test_a_cells_middle_lies_in_that_cell_unless_a_smaller_cascade_has_it():
    geometry = MarchGeometry(Bounds(2.0 ** (CASCADES - 1)), SIDE, 0.1, 0.01, 0.0)
    number = mx.arange(geometry.cells, dtype=mx.int32)
    lowest, side = corners_of(number, SIDE)
    back = np.array(cell_of(lowest + 0.5 * side[:, None], geometry))
    covered = np.abs(np.array(lowest + 0.5 * side[:, None]) - 0.5).max(axis=1)
    own = (np.array(number) < SIDE**3) | (covered > 0.25 * SIDE * np.array(side))
    assert np.array_equal(back == np.array(number), own)
    assert np.array(side).min() == 1.0 / SIDE
