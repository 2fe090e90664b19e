"""Intersections of rays with cells as solid blocks, compared with all blocks in float64."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac import Camera, Lens
from nerfmac.app.viewer.images import first_blocks, first_samples
from nerfmac.geometry.rays import camera_rays
from nerfmac.ops.march import Occupied, march
from tests.app.viewer.analytic import (
    BELOW,
    CUBE,
    FRONT,
    LENS,
    SCENE,
    SIDE,
    box_hits,
    cell_boxes,
    state,
)
from tests.bricks import in_bricks
from tests.pinhole import pixel_rays

pytestmark = pytest.mark.usefixtures("on_the_cpu")

CLIPPED = 1 / 4
"""Size of corners that may be missed, relative to the cell side. Such rays are not compared."""


def some_cells(geometry, fraction, seed=3):
    shape = (geometry.bounds.cascades, *[geometry.resolution] * 3)
    return np.random.default_rng(seed).random(shape) < fraction


def seen(geometry, camera, occupied):
    """Hit, depth, axis and cell of all pixels, by `first_blocks`."""
    bits = state(geometry, occupied).sampling["bits"]
    blocks = first_blocks(camera_rays(camera), bits, geometry)
    shape = camera.lens.height, camera.lens.width
    return [np.array(part).reshape(shape) for part in blocks]


def nearest(geometry, camera, occupied):
    """The same by comparing all cells, and whether the ray only clips some cell's corner."""
    origin, direction = pixel_rays(camera)
    half = geometry.bounds.extent / 2
    low, high = (np.clip(each, 0.5 - half, 0.5 + half) for each in cell_boxes(geometry))
    hit, clips = np.zeros(direction.shape[:2], bool), np.zeros(direction.shape[:2], bool)
    depth = np.full(hit.shape, np.inf)
    axis, cell = np.zeros(hit.shape, int), np.full(hit.shape, -1)
    # Cells of a cascade that a smaller one covers are never looked at.
    inner = 0.25 * 2.0 ** np.arange(geometry.bounds.cascades).reshape(-1, 1, 1, 1)
    inner[0] = 0.0
    is_covered = (np.abs((low + high) / 2 - 0.5).max(axis=-1) < inner) | (low == high).any(axis=-1)
    low, high = in_bricks(low), in_bricks(high)
    for number in np.flatnonzero(in_bricks(occupied & ~is_covered)):
        enter, leave, across = box_hits(origin, direction, low[number], high[number])
        is_met = (leave > enter) & (leave > geometry.near)
        clips |= (leave > enter - 1e-3) & (leave - enter < CLIPPED / geometry.resolution)
        is_first = is_met & (enter < depth)
        depth[is_first], axis[is_first], cell[is_first] = enter[is_first], across[is_first], number
        hit |= is_met
    return hit, np.where(hit, np.maximum(depth, geometry.near), 0.0), axis, cell, clips


@pytest.mark.parametrize("camera", [FRONT, SIDE, BELOW], ids=["front", "side", "below"])
@pytest.mark.parametrize("geometry", [CUBE, SCENE], ids=["cube", "scene"])
@pytest.mark.parametrize("fraction", [0.003, 0.02])
def test_the_nearest_block_is_seen_and_the_face_the_ray_enters_through(geometry, camera, fraction):
    occupied = some_cells(geometry, fraction)
    got = seen(geometry, camera, occupied)
    hit, depth, axis, cell, clips = nearest(geometry, camera, occupied)
    sure = ~clips
    assert sure.mean() > 0.2
    assert hit[sure].mean() > 0.02
    assert (got[0] == hit)[sure].all()
    assert got[1][sure] == pytest.approx(depth[sure], abs=2e-5)
    assert (got[2] == axis)[sure & hit].all()
    assert (got[3] == cell)[sure].all()


@pytest.mark.parametrize("camera", [SIDE, BELOW], ids=["side", "below"])
def test_between_the_faces_of_one_wall_there_is_no_seam(camera):
    # A ray that enters close to a neighbor's face crosses into it at once, but is seen outside.
    lens = LENS.scaled(280, 200)
    camera = Camera(lens, camera.pose)
    occupied = np.zeros((1, 16, 16, 16), bool)
    occupied[0, 4:12, 5:13, 3:11] = True
    hit, depth, axis, _ = seen(CUBE, camera, occupied)
    origin, direction = pixel_rays(camera)
    low, high = np.array([3, 5, 4]) / 16, np.array([11, 13, 12]) / 16
    enter, leave, across = box_hits(origin, direction, low, high)
    sure = leave - enter > CLIPPED / 16
    assert sure.mean() > 0.1
    assert hit[sure].all()
    assert depth[sure] == pytest.approx(enter[sure], abs=2e-5)
    a, b = (low - origin) / direction, (high - origin) / direction
    faces = np.sort(np.minimum(a, b), axis=-1)
    is_clear = sure & (faces[..., 2] - faces[..., 1] > 1e-4)  # not on the box's own edges
    assert (axis == across)[is_clear].all()
    assert len(np.unique(axis[is_clear])) >= 2


@pytest.mark.parametrize("along", [0, 1, 2])
def test_a_ray_along_an_axis_meets_what_stands_in_its_way(along):
    eye, up = np.array([0.47, 0.53, 0.59]), np.roll(np.eye(3)[along], 1)
    eye[along] = 2.0
    lens = Lens(1, 1, 9.0, 9.0, 0.5, 0.5)
    camera = Camera.look_at(eye, eye - np.eye(3)[along], up, lens)
    assert (np.array(camera_rays(camera).direction)[0] == -np.eye(3)[along]).all()
    occupied = np.zeros((1, 16, 16, 16), bool)
    place = np.floor(eye * 16).astype(int)
    place[along] = 5
    occupied[(0, *place[::-1])] = True
    hit, depth, axis, _ = seen(CUBE, camera, occupied)
    assert hit.all()
    assert depth[0, 0] == pytest.approx(2.0 - 6 / 16, abs=1e-6)
    assert axis[0, 0] == along


@pytest.mark.parametrize("geometry", [CUBE, SCENE], ids=["cube", "scene"])
def test_first_samples_are_those_of_marching(geometry):
    bits = state(geometry, some_cells(geometry, 0.01)).sampling["bits"]
    rays = camera_rays(SIDE)
    first = first_samples(rays, bits, geometry)
    number = rays.origin.shape[0]
    samples = march(*rays[:2], mx.full((number,), 0.5), Occupied(geometry, bits), 200_000)
    assert np.array(samples.fits).all()
    count, start = np.array(samples.wanted), np.array(samples.ray_start)[:-1]
    assert 0.1 < (count > 0).mean() < 0.99
    assert (np.array(first.samples) == count).all()
    some = count > 0
    want = np.array(samples.distance)[start[some]]
    assert (np.array(first.distance)[some] == want).all()
    assert (np.array(first.distance)[~some] == 0).all()
    assert (np.array(first.position)[some] == np.array(samples.position)[start[some]]).all()
