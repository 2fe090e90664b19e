"""The cells that a crop leaves, against boxes compared in NumPy."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.geometry.placement import Placement
from nerfmac.rendering.crop import cropped
from tests.app.viewer.analytic import CUBE, SCENE, cell_boxes
from tests.bricks import out_of_bricks

FULL = 2**32 - 1
ROTATION = np.array([[-15, -20, 0], [12, -9, -20], [16, -12, 15]]) / 25


def left(geometry, box, placement=None) -> np.ndarray:
    """(cascades, z, y, x) bool: which cells of a full grid the crop leaves."""
    full = mx.full((geometry.cells // 32,), FULL, mx.uint32)
    bits = np.array(cropped(full, geometry, box, placement))
    size = geometry.resolution
    is_set = bits[:, None] >> np.arange(32, dtype=np.uint32) & 1
    return out_of_bricks(is_set.astype(bool), size)


@pytest.mark.parametrize("geometry", [CUBE, SCENE], ids=["cube", "scene"])
def test_the_cells_that_overlap_the_box_are_left(geometry):
    random = np.random.default_rng(5)
    lowest, highest = cell_boxes(geometry)
    for _ in range(6):
        ends = random.uniform(-0.7, 1.7, (2, 3)) if geometry is SCENE else random.random((2, 3))
        low, high = ends.min(axis=0), ends.max(axis=0)
        want = ((lowest < high) & (highest > low)).all(axis=-1)
        assert 0 < want.sum() < want.size
        got = left(geometry, (tuple(low.tolist()), tuple(high.tolist())))
        assert (got == want).all()


def test_a_box_along_the_cells_faces_does_not_leave_their_neighbors():
    got = left(CUBE, ((0.25, 0.5, 0.125), (0.5, 0.75, 0.1875)))
    z, y, x = np.nonzero(got[0])
    assert (x.min(), x.max()) == (4, 7)
    assert (y.min(), y.max()) == (8, 11)
    assert (z.min(), z.max()) == (2, 2)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_box_beside_the_scene_leaves_nothing(axis):
    low, high = [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]
    low[axis], high[axis] = 3.0, 1e8
    assert not left(SCENE, (tuple(low), tuple(high))).any()
    low[axis], high[axis] = -1e8, -2.0
    assert not left(SCENE, (tuple(low), tuple(high))).any()


def test_a_crop_sets_no_cell():
    bits = mx.array(np.random.default_rng(1).integers(0, 2**32, CUBE.cells // 32, np.uint32))
    some = np.array(cropped(bits, CUBE, ((0.1, 0.2, 0.3), (0.6, 0.9, 0.8))))
    assert (some & ~np.array(bits) == 0).all()
    assert 0 < (some != 0).sum() < (np.array(bits) != 0).sum()


@pytest.mark.parametrize("geometry", [CUBE, SCENE], ids=["cube", "scene"])
def test_a_box_of_the_scenes_files_is_where_its_placement_says(geometry):
    low, high = np.array([-0.4, -0.2, -0.3]), np.array([0.1, 0.5, 0.6])
    for rotation in (np.eye(3), ROTATION):
        placement = Placement(0.7, np.array([0.4, 0.55, 0.5]), 1.0, rotation)
        got = left(geometry, (tuple(low), tuple(high)), placement)
        lowest, highest = cell_boxes(geometry)
        inside = np.zeros(got.shape, bool)
        for fraction in np.random.default_rng(3).random((60, 3)):
            place = placement.to_file(lowest + fraction * (highest - lowest))
            inside |= ((place > low) & (place < high)).all(axis=-1)
        assert 0 < inside.sum() < inside.size
        assert not (inside & ~got).any(), "a cell with a point in the box is left out"
        middle = placement.to_file((lowest + highest) / 2)
        beyond = np.maximum(low - middle, middle - high).max(axis=-1)
        reach = np.sqrt(0.75) * (highest - lowest)[..., 0] / placement.scale
        assert not (got & (beyond > reach)).any(), "a cell far from the box is left"
