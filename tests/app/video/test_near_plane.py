"""The near plane of renderings: that of training, but never behind the front of the subject."""

from dataclasses import replace

import numpy as np
import pytest

from nerfmac.app.run import Run
from nerfmac.app.scenes import load_scene
from nerfmac.app.video import RenderOptions, ViewRenderer
from nerfmac.app.video.view_renderer import NEAR_STEP, near_plane_at
from nerfmac.config import override
from nerfmac.config.sampling import NEAR
from nerfmac.geometry.bounds import Sphere
from nerfmac.geometry.cameras import Camera
from nerfmac.geometry.lenses import Lens
from nerfmac.training.trainer import Trainer
from tests.scene_factory import CONFIG, write_scene

pytestmark = pytest.mark.usefixtures("on_the_cpu")

SUBJECT = Sphere((0.5, 0.5, 0.5), 0.2)
PLANE = 0.4


def camera(distance: float) -> Camera:
    """A camera at a distance from the center of the subject."""
    eye = (0.5, 0.5 - distance, 0.5)
    return Camera.look_at(eye, SUBJECT.center, (0, 0, 1), Lens.from_fov(0.8, 8, 6))


@pytest.mark.parametrize("distance", np.linspace(0.0, 1.5, 61))
def test_the_near_plane_is_in_front_of_the_subject(distance):
    near = near_plane_at((0.5, 0.5 - distance, 0.5), PLANE, SUBJECT)
    surface = distance - SUBJECT.radius
    assert NEAR <= near <= PLANE
    assert near <= max(surface, NEAR)
    assert near >= min(surface, PLANE) - NEAR_STEP


def test_a_near_plane_that_the_user_made_small_is_kept():
    assert near_plane_at((0.5, 0.2, 0.5), 0.02, SUBJECT) == 0.02
    assert near_plane_at((0.5, 0.2, 0.5), 0.02, None) == 0.02


def test_without_a_known_subject_little_is_cut_off():
    assert near_plane_at((0.5, -1.0, 0.5), PLANE, None) == NEAR


@pytest.mark.parametrize(
    ("distance", "options", "subject", "near"),
    [
        (1.2, RenderOptions(), SUBJECT, PLANE),
        (0.5, RenderOptions(), SUBJECT, 9 * NEAR_STEP),
        (0.5, RenderOptions(near=0.35), SUBJECT, 0.35),
        (1.2, RenderOptions(), None, NEAR),
    ],
)
def test_an_image_has_the_near_plane_of_its_camera(
    monkeypatch, tmp_path, distance, options, subject, near
):
    scene = load_scene(write_scene(tmp_path / "balls"))
    run = Run.begin(scene, override(CONFIG, march={"near": PLANE}), progress=False)
    usual, used = Trainer.renderer, []

    def renderer(self, state, occupied=None):
        used.append(occupied.geometry.near)
        return usual(self, state, occupied)

    monkeypatch.setattr(Trainer, "renderer", renderer)
    view = ViewRenderer(run.trainer, run.state, options, subject=subject)
    view.render(camera(distance))
    view.render(replace(camera(distance), pose=camera(distance + 1e-3).pose))
    assert used == [pytest.approx(near)], "cameras with one near plane share a renderer"
