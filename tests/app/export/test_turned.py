"""Exports of a scene with a rotated placement, and the occupied regions of a run."""

from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.app.export import extract_cameras, extract_density, extract_mesh, extract_points
from nerfmac.app.export.common import OccupiedCells
from nerfmac.geometry import Bounds, Cells, Placement, number_of
from nerfmac.ops.march import MarchGeometry, Occupied
from tests.app.export.egg import Egg, distance_to, egg_run, size_of, slope_of

ROTATION = np.array([[-15, -20, 0], [12, -9, -20], [16, -12, 15]]) / 25
PLACEMENT = Placement(0.4, np.array([0.45, 0.6, 0.5]), 1.0, ROTATION)


@pytest.fixture(scope="module")
def turned(scene, run):
    """A run on a scene that was turned when it was read."""
    own = egg_run(scene)
    own.scene = replace(own.scene, placement=PLACEMENT)
    return own


def facing(position):
    """Unit normals of the egg, in the axes of the files."""
    slope = slope_of(position) @ ROTATION
    return slope / np.linalg.norm(slope, axis=1, keepdims=True)


def test_the_mesh_and_its_normals_are_turned_back(turned):
    mesh = extract_mesh(turned, resolution=80, progress=False)
    position = mesh.vertices @ (0.4 * ROTATION).T + PLACEMENT.offset
    assert np.abs(distance_to(position)).max() < 0.01
    assert (mesh.normals * facing(position)).sum(axis=1).min() > 0.97
    assert ROTATION @ mesh.up == pytest.approx(turned.scene.up)
    corner = mesh.vertices[mesh.faces]
    outwards = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
    assert (outwards * mesh.normals[mesh.faces[:, 0]]).sum(axis=1).mean() > 0


def test_points_are_turned_back_and_cropped_in_the_files_axes(turned):
    crop = ((-0.6, -0.3, -0.9), (0.1, 0.9, 0.9))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nerfmac.app.export.points.RAYS", 2**11)
        points = extract_points(turned, count=200, crop=crop, progress=False)
    assert ((points.positions >= crop[0]) & (points.positions <= crop[1])).all()
    position = PLACEMENT.to_scene(points.positions)
    is_egg = size_of(position) < 1.1
    assert np.abs(distance_to(position[is_egg])).mean() < 0.01
    assert (points.normals[is_egg] * facing(position[is_egg])).sum(axis=1).mean() > 0.95


def test_density_is_on_a_lattice_along_the_files_axes(turned):
    crop = ((-0.3, -0.2, -0.35), (0.2, 0.4, 0.1))
    grid = extract_density(turned, resolution=20, crop=crop, progress=False)
    assert grid.origin == pytest.approx(crop[0])
    index = np.stack(np.indices(grid.density.shape), axis=-1).reshape(-1, 3)
    position = (grid.origin + grid.spacing * index) @ (0.4 * ROTATION).T + PLACEMENT.offset
    want = 0.4 * np.array(Egg().density_at({}, mx.array(position, mx.float32)))
    assert grid.density.ravel() == pytest.approx(want, rel=1e-3)
    assert want.max() > 1000 * want.min()


def test_cameras_are_turned_back(turned):
    written = extract_cameras(turned)
    assert len(written["frames"]) == sum(map(len, turned.images().splits.values()))
    for frame, camera in zip(written["frames"], turned.scene.cameras("train"), strict=False):
        pose = np.array(frame["transform_matrix"])[:3]
        assert PLACEMENT.apply(pose) == pytest.approx(camera.pose, abs=1e-6)
    assert ROTATION @ written["up"] == pytest.approx(turned.scene.up)


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
