"""Which cells of the occupancy grid a training camera sees, whatever its lens."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.backend import choose_device
from nerfmac.config import OccupancyConfig
from nerfmac.geometry.cameras import Camera, Cameras
from nerfmac.geometry.lenses import Lens
from nerfmac.geometry.rays import camera_rays
from nerfmac.ops.march import MarchGeometry, is_occupied
from nerfmac.sampling.occupancy import OccupancyGrid
from tests.sampling.grids import (
    CELLS,
    CONFIG,
    CUBE,
    SCENE,
    bits_of,
    centres,
    updated,
)


@pytest.fixture(autouse=True)
def on_the_cpu():
    choose_device("cpu")


@pytest.mark.parametrize("towards", [(1, 0, 0), (0, -1, 0), (0, 0, 1), (-0.5, 0.7, 0.3)])
@pytest.mark.parametrize("geometry", [CUBE, SCENE], ids=["cube", "scene"])
def test_cells_no_camera_sees_stay_empty_and_those_seen_do_not(towards, geometry):
    lens = Lens(60, 30, 40.0, 50.0, 20.0, 22.0)  # wider than high, and off the middle
    eye = np.array([0.45, 0.55, 0.4])
    camera = Camera.look_at(eye, eye + towards, (0.1, 0.2, 0.97), lens)
    grid = OccupancyGrid(CONFIG, geometry)
    occupancy = grid.init(Cameras.stack([camera]))
    occupancy = updated(grid, occupancy, lambda p: mx.full((len(p),), 50.0), times=2)

    offset = centres(geometry) - eye
    x, y, back = (offset @ camera.pose[:, :3].astype(np.float64)).T
    side = np.repeat(2.0 ** np.arange(geometry.cascades) / CELLS, CELLS**3)
    depth = np.maximum(-back, 1e-9)
    column, row = 40.0 * x / depth + 20.0, -50.0 * y / depth + 22.0
    seen = (back < 0) & (column > 0) & (column < 60) & (row > 0) & (row < 30)
    margin = 50.0 * 2 * side / depth
    beside = (column < -6 - margin) | (column > 66 + margin)
    beside |= (row < -3 - margin) | (row > 33 + margin)
    unseen = (back > 2 * side) | ((back < 0) & beside)
    assert min(seen.sum(), unseen.sum()) > 100
    bits, values = bits_of(occupancy), np.array(occupancy.values)
    assert bits[seen].all()
    assert not bits[unseen].any()
    assert (values[unseen] == -1.0).all()
    assert (values[seen] > 0.0).all()


def test_several_cameras_see_what_any_of_them_sees():
    lens = Lens.from_fov(0.6, 30, 30)
    views = [
        Camera.look_at((0.5, 0.5, 0.5), target, (0.1, 0.9, 0.2), lens)
        for target in ((1.0, 0.5, 0.5), (0.5, 0.5, 0.0))
    ]
    grid = OccupancyGrid(CONFIG, CUBE)
    alone = [bits_of(grid.init(Cameras.stack([view]))) for view in views]
    together = bits_of(grid.init(Cameras.stack(views)))
    assert (alone[0] != alone[1]).any()
    assert (together == alone[0] | alone[1]).all()


def lit_fraction(camera: Camera) -> np.ndarray:
    """(pixels,) what fraction of a pixel's way through the unit cube leads through seen cells."""
    geometry = MarchGeometry(1.0, 64, 0.05, 3**0.5 / 256, 0.0)
    grid = OccupancyGrid(OccupancyConfig(resolution=64), geometry)
    occupancy = grid.init(Cameras.stack([camera]))
    rays = camera_rays(camera)
    distance = mx.linspace(0.0, 3.0, 301)[:, None, None]
    points = rays.origin + distance * rays.direction
    is_inside = np.array(((points > 0.0) & (points < 1.0)).all(axis=2))
    seen = is_occupied(points.reshape(-1, 3), occupancy.bits, geometry)
    lit = np.array(seen).reshape(is_inside.shape) & is_inside
    return lit.sum(axis=0)[is_inside.any(axis=0)] / is_inside.sum(axis=0)[is_inside.any(axis=0)]


@pytest.mark.parametrize("k1", [0.0, -0.25, -0.1, 0.2])
def test_every_pixel_looks_through_seen_cells_whatever_the_lens(k1):
    # With k1 = -0.25 the lens folds inside the picture: no direction leads to its corners.
    lens = Lens(80, 60, 50.0, 50.0, 40.0, 30.0, k1=k1)
    for eye in ((0.5, 0.45, -0.3), (0.4, 0.5, 0.55)):
        lit = lit_fraction(Camera.look_at(eye, (0.5, 0.5, 1.5), (0.0, 1.0, 0.0), lens))
        assert len(lit) > 0.5 * 4800
        assert lit.min() == 1.0


def test_a_strong_lens_sees_nothing_behind_it_nor_far_to_its_side():
    lens = Lens(80, 60, 50.0, 50.0, 40.0, 30.0, k1=-0.1)
    camera = Camera.look_at((0.5, 0.5, 0.3), (0.5, 0.5, 1.0), (0.0, 1.0, 0.0), lens)
    occupancy = OccupancyGrid(CONFIG, CUBE).init(Cameras.stack([camera]))
    x, _, z = (centres(CUBE) - (0.5, 0.5, 0.3)).T
    behind, beside = z < -2 / CELLS, (np.abs(x) > 1.3 * z + 2 / CELLS) & (z > 0)
    assert min(behind.sum(), beside.sum()) > 100
    assert (np.array(occupancy.values)[behind | beside] == -1.0).all()


@pytest.mark.parametrize("block", [1, 3])
def test_what_is_seen_does_not_depend_on_how_many_cells_are_looked_at_at_a_time(monkeypatch, block):
    lens = Lens(60, 30, 40.0, 50.0, 20.0, 22.0)
    cameras = Cameras.stack([Camera.look_at((0.2, 0.4, 0.4), (1, 1, 1), (0, 0, 1), lens)])
    at_once = bits_of(OccupancyGrid(CONFIG, CUBE).init(cameras))
    monkeypatch.setattr("nerfmac.sampling.occupancy.BLOCK", CELLS**3 // block - 7)
    assert 0 < at_once.sum() < CELLS**3
    assert (bits_of(OccupancyGrid(CONFIG, CUBE).init(cameras)) == at_once).all()
