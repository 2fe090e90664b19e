"""Carving: cells that several ways to sparse points cross are empty, and those of points not."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.geometry.cameras import Camera, Cameras
from nerfmac.geometry.lenses import Lens
from nerfmac.geometry.rays import Rays
from nerfmac.ops.march import cell_of
from nerfmac.sampling.carving import FREE_FRACTION, carved_cells
from nerfmac.sampling.marching import MarchingSampler
from nerfmac.sampling.occupancy import NEVER_OCCUPIED, Occupancy
from nerfmac.scenes.tracks import Tracks
from tests.sampling.grids import CELLS, SCENE, bits_of, centres
from tests.scene_factory import CONFIG

pytestmark = pytest.mark.usefixtures("on_the_cpu")

EYES = np.array([[-0.9, 0.4, 0.7], [0.3, 1.9, 0.2], [1.6, -0.5, 1.1]], np.float32)


def tracks_to(points, views) -> Tracks:
    """Tracks in which each of the `views` sees each of the `points`."""
    view, point = np.meshgrid(views, np.arange(len(points)), indexing="ij")
    pixel = np.zeros((view.size, 2))
    return Tracks(
        view.ravel(), pixel, point.ravel(), np.array(points, float), np.zeros(len(points))
    )


def cells_at(positions) -> np.ndarray:
    return np.array(cell_of(mx.array(np.array(positions, np.float32)), SCENE))


def along(eye, point, fractions) -> np.ndarray:
    return eye + np.array(fractions)[:, None] * (np.array(point) - eye)


POINT = (0.45, 0.52, 0.38)


def test_what_three_cameras_look_through_is_one_ways_each_and_stays():
    carved = np.array(carved_cells(tracks_to([POINT], [0, 1, 2]), EYES, SCENE))
    assert not carved.any()


def bundle(count: int) -> list[tuple[float, float, float]]:
    random = np.random.default_rng(7)
    return [tuple(POINT + 0.02 * random.normal(size=3)) for _ in range(count)]


def test_ways_that_share_their_cells_empty_them_up_to_just_before_the_points():
    points = bundle(12)
    carved = np.array(carved_cells(tracks_to(points, [0, 2]), EYES, SCENE))
    for view in (0, 2):
        assert carved[cells_at(along(EYES[view], POINT, [0.1, 0.3, 0.5, 0.7]))].all()
        assert not carved[cells_at(along(EYES[view], POINT, [0.97, 1.0, 1.1, 1.3]))].any()
    assert not carved[cells_at(along(EYES[1], POINT, [0.1, 0.3, 0.5, 0.7]))].any()
    assert carved.mean() < 0.05


def test_two_ways_are_too_few_and_three_enough():
    for count, is_empty in ((2, False), (3, True)):
        close = [np.array(POINT) + 1e-4 * number for number in range(count)]
        carved = np.array(carved_cells(tracks_to(close, [0]), EYES, SCENE))
        assert (carved[cells_at(along(EYES[0], POINT, [0.2, 0.5]))] == is_empty).all()


def test_cells_of_points_and_those_beside_them_stay():
    middle = along(EYES[0], POINT, [0.5])[0]
    points = [*bundle(12), tuple(middle)]
    carved = np.array(carved_cells(tracks_to(points, [0]), EYES, SCENE))
    cell = cells_at([middle])[0]
    side = 2.0 ** (cell // CELLS**3) / CELLS
    far = np.abs(centres(SCENE) - centres(SCENE)[cell]).max(axis=1) / side
    same = np.arange(SCENE.cells) // CELLS**3 == cell // CELLS**3
    assert not carved[same & (far < 1.01)].any()
    assert carved[cells_at(along(EYES[0], POINT, [0.2, 0.8]))].all()


def test_every_carved_cell_is_crossed_before_the_points():
    points = bundle(20)
    carved = np.array(carved_cells(tracks_to(points, [0, 1, 2]), EYES, SCENE))
    crossed = np.zeros(SCENE.cells, bool)
    for eye in EYES:
        for point in points:
            cells = cells_at(along(eye, point, np.linspace(0.0, FREE_FRACTION, 4000)))
            crossed[cells[cells >= 0]] = True
    assert carved.any()
    assert not (carved & ~crossed).any()
    assert carved.sum() > 0.4 * crossed.sum()


def test_a_sampler_keeps_carved_cells_empty_and_others_as_they_are():
    sampler = MarchingSampler(CONFIG.march, CONFIG.occupancy, SCENE.bounds, lambda *_: None)
    lens = Lens.from_fov(1.0, 8, 6)
    views = [Camera.look_at(eye, POINT, (0.1, 0.2, 1), lens) for eye in EYES]
    random = np.random.default_rng(1)
    aim = np.array(POINT) + random.normal(size=(4000, 3)) - EYES[0]
    directions = (aim / np.linalg.norm(aim, axis=1, keepdims=True)).astype(np.float32)
    rays = Rays(mx.array(np.repeat(EYES[:1], 4000, axis=0)), mx.array(directions))
    before = sampler.init([rays])
    tracks, cameras = tracks_to(bundle(30), [0]), Cameras.stack(views)
    after = sampler.carve(before, tracks, cameras)
    empty = np.array(carved_cells(tracks, EYES, sampler.geometry))
    old, new = (np.array(state["updates_since_visible"]) for state in (before, after))
    visible = bits_of(Occupancy(**before))
    assert (visible & empty).sum() > 10
    assert (bits_of(Occupancy(**after)) == visible & ~empty).all()
    assert (new[empty] == NEVER_OCCUPIED).all()
    assert (new[~empty] == old[~empty]).all()
