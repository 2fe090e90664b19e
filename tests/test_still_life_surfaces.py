"""True depth and normals of the built-in scene, and how a run is compared with them."""

from types import SimpleNamespace

import mlx.core as mx
import numpy as np
import pytest
import still_life_surfaces
from still_life_surfaces import compare, true_surface

from nerfmac import builtin_scene_path
from nerfmac.app.scenes import load_scene
from nerfmac.geometry.rays import camera_rays

pytestmark = pytest.mark.usefixtures("on_the_cpu")


@pytest.fixture(scope="module")
def built_in():
    return load_scene(builtin_scene_path(), max_images=2, downscale=4)


def test_the_truth_is_where_the_photos_show_objects_and_faces_the_camera(built_in):
    views = built_in.views("test", progress=False)
    for index, camera in enumerate(built_in.cameras("test")):
        distance, normal = true_surface(camera, built_in.placement)
        alpha = np.array(views.image(index))[..., 3].ravel()
        seen = np.isfinite(distance)
        assert 0.1 < seen.mean() < 0.9
        assert seen[alpha == 255].all()
        assert not seen[alpha == 0].any()
        rays = camera_rays(camera)
        facing = np.einsum("ij,ij->i", normal, np.array(rays.direction))[seen]
        assert (facing < 0.0).mean() > 0.99
        at = np.array(rays.origin)[seen] + distance[seen, None] * np.array(rays.direction)[seen]
        assert (np.abs(at - 0.5) < 0.5).all()


def test_depth_and_normals_that_are_wrong_by_a_known_amount(built_in, monkeypatch):
    def renderer(*_):
        def render(camera):
            distance, normal = true_surface(camera, built_in.placement)
            depth = np.where(np.isfinite(distance), 1.02 * distance, 0.0)
            return SimpleNamespace(depth=mx.array(depth), values=mx.array(turned(normal, 10.0)))

        return SimpleNamespace(render=render)

    monkeypatch.setattr(still_life_surfaces, "ViewRenderer", renderer)
    monkeypatch.setattr(still_life_surfaces, "placement_of", lambda run: built_in.placement)
    run = SimpleNamespace(trainer=None, state=None)
    errors, angle = compare(run, built_in.cameras("test"))
    assert (errors.median, errors.p90) == (pytest.approx(0.02, abs=1e-5),) * 2
    assert angle == pytest.approx(10.0, abs=0.1)


def turned(normal: np.ndarray, degrees: float) -> np.ndarray:
    """Return unit vectors (n, 3) at an angle from the normals; a normal may be 0."""
    across = np.cross(normal, [0.3, 0.5, 0.81])
    across /= np.maximum(np.linalg.norm(across, axis=1, keepdims=True), 1e-9)
    angle = np.radians(degrees)
    return np.cos(angle) * normal + np.sin(angle) * across
