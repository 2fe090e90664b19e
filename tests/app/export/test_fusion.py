"""Fusion of depth that is known, and meshes of scenes with surroundings."""

from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest

from nerfmac import Camera, InputError, Lens
from nerfmac.app.export import Lattice, distances_to_mesh, extract_mesh
from nerfmac.app.export.fusion import DepthView, depth_views, fused
from nerfmac.geometry.placement import Placement
from tests.app.export.egg import Egg, distance_to, egg_run
from tests.pinhole import pixel_rays, sphere_hits

pytestmark = pytest.mark.skipif(find_spec("trimesh") is None, reason="needs the extra export")

TURN = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
PLACEMENT = Placement(0.5, np.array([0.4, 0.6, 0.5]), 2.0, TURN)
LATTICE = Lattice(np.array([-1.2, -1.2, -1.2]), 0.06, (41, 41, 41))
LENS = Lens(64, 48, 60.0, 62.0, 31.0, 25.0)
CENTER = np.array([0.45, 0.55, 0.5])
RADIUS = 0.3
CROP = ((-0.83, -0.64, -0.6), (0.62, 0.46, 0.63))  # around the egg and the crumb
RESOLUTION = 60


def ball_view(eye, *, floater: float | None = None) -> DepthView:
    """The exact depth of a ball from a position; a `floater` is a surface at this distance."""
    camera = Camera.look_at(eye, CENTER, (0.1, 0.2, 1.0), LENS)
    depth = sphere_hits(*pixel_rays(camera), CENTER, RADIUS)
    if floater is not None:
        depth[10:30, 20:50] = floater
    return DepthView(camera, depth.astype(np.float32))


def around(count: int) -> list[np.ndarray]:
    turn = 2.4 * np.arange(count)
    height = np.linspace(-0.9, 0.9, count)
    flat = np.sqrt(1.0 - height**2)
    return list(CENTER + 1.1 * np.stack([flat * np.cos(turn), flat * np.sin(turn), height], 1))


def test_points_of_a_view_are_on_the_ball_and_distances_to_it_are_along_rays():
    view = ball_view((1.4, 0.2, 0.9))
    points = view.points()
    assert len(points) > 300
    np.testing.assert_allclose(np.linalg.norm(points - CENTER, axis=1), RADIUS, atol=1e-5)
    eye = view.camera.pose[:, 3].astype(float)
    for step in (-0.1, 0.0, 0.2):
        away = np.linalg.norm(points - eye, axis=1, keepdims=True)
        moved = eye + (points - eye) * (1.0 + step / away)
        np.testing.assert_allclose(view.signed_distance(moved)[0], -step, atol=1e-4)
    distance, weight = view.signed_distance(np.array([[1.5, 0.2, 0.95], [1.0, 1.5, 0.9]]))
    assert np.isnan(distance).all()
    assert (weight == 0.0).all()
    _, weight = view.signed_distance(points)
    outwards = (points - CENTER) / RADIUS
    cosine = np.einsum("ij,ij->i", eye - points, outwards) / np.linalg.norm(eye - points, axis=1)
    inner = cosine > 0.6
    np.testing.assert_allclose(weight[inner], cosine[inner], atol=0.03)


def all_positions() -> np.ndarray:
    index = np.stack(np.meshgrid(*map(np.arange, LATTICE.shape), indexing="ij"), axis=-1)
    return PLACEMENT.to_scene(LATTICE.position(index.astype(float)))


def test_the_zero_of_the_fused_distance_is_the_ball():
    values, is_known = fused(
        [ball_view(eye) for eye in around(24)], LATTICE, PLACEMENT, progress=False
    )
    index = np.argwhere(is_known).astype(float)
    position = PLACEMENT.to_scene(LATTICE.position(index))
    away = np.linalg.norm(position - CENTER, axis=1) - RADIUS
    cell = LATTICE.spacing * PLACEMENT.scale
    away /= cell
    assert (np.abs(away) < 1.0).sum() > 1000
    is_outside = values[is_known] > 0
    assert (is_outside == (away > 0))[np.abs(away) > 0.75].mean() > 0.98
    assert (is_outside == (away > 0))[np.abs(away) > 1.5].all()
    assert not is_known[np.linalg.norm(all_positions() - CENTER, axis=-1) < RADIUS / 2].any()


def test_a_floater_that_one_view_sees_is_no_surface():
    eyes = around(24)
    views = [ball_view(eyes[0], floater=0.5), *map(ball_view, eyes[1:])]
    values, is_known = fused(views, LATTICE, PLACEMENT, progress=False)
    outside = np.linalg.norm(all_positions() - CENTER, axis=-1) > 1.25 * RADIUS
    alone, is_known_alone = fused(views[:1], LATTICE, PLACEMENT, progress=False)
    assert (alone[outside & is_known_alone] < 0).sum() > 100
    assert (values[outside & is_known] > 0).mean() > 0.995


@pytest.fixture(scope="module")
def surrounded(scene):
    """A run of the egg in a scene with surroundings."""
    return egg_run(replace(scene, extent=2.0))


@pytest.fixture(scope="module")
def mesh(surrounded):
    return extract_mesh(surrounded, resolution=RESOLUTION, crop=CROP, progress=False)


def test_the_mesh_of_a_scene_is_what_its_cameras_see(mesh, surrounded):
    placement = surrounded.scene.placement
    position = placement.to_scene(mesh.vertices)
    cell = placement.scale * 1.45 / RESOLUTION
    away = np.abs(distance_to(position))
    assert len(away) > 2000
    assert np.median(away) < 0.5 * cell
    assert np.quantile(away, 0.99) < 2.0 * cell
    outwards = position - np.array([0.53, 0.46, 0.51])
    assert (np.einsum("ij,ij->i", mesh.normals, outwards) > 0).mean() > 0.98
    assert np.linalg.norm(mesh.normals, axis=1) == pytest.approx(1.0, abs=1e-5)
    corner = mesh.vertices[mesh.faces]
    facing = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
    assert (np.einsum("ij,ij->i", facing, outwards[mesh.faces[:, 0]]) > 0).mean() > 0.98


def test_a_scene_in_which_nothing_is_seen_has_no_mesh(scene):
    class Empty(Egg):
        def density_at(self, parameters, position):
            return 0.0 * super().density_at(parameters, position)

    run = egg_run(replace(scene, extent=2.0), Empty)
    with pytest.raises(InputError, match="see no surface in the box"):
        extract_mesh(run, resolution=16, crop=CROP, progress=False)


def test_a_distorted_camera_is_rendered_without_distortion(surrounded):
    camera = surrounded.cameras[0]
    bent = Camera(replace(camera.lens, k1=0.2, k2=-0.1), camera.pose)
    (view,) = depth_views(surrounded.renderer(), [bent], 40, progress=False)
    assert (view.camera.lens.width, view.camera.lens.height) == (40, 32)
    assert not view.camera.lens.is_distorted
    away = np.abs(distance_to(view.points()))
    assert len(away) > 50
    assert np.median(away) < 0.02


def test_distances_to_triangles_are_to_faces_edges_and_corners():
    vertices = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0], [5, 5, 5]])
    faces = np.array([[0, 1, 2], [1, 3, 2]], np.int32)
    points = np.array([[0.2, 0.3, 0.7], [0.5, -0.4, 0.3], [-3.0, -4.0, 0.0], [0.9, 0.9, -0.1]])
    got = distances_to_mesh(points, vertices, faces)
    np.testing.assert_allclose(got, [0.7, 0.5, 5.0, 0.1], atol=1e-12)
