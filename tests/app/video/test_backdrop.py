"""The backdrop and the near plane of renderings."""

import json
from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest
from PIL import Image

from nerfmac import Camera, Lens, load_scene
from nerfmac.app.run import Run, Training
from nerfmac.app.video import render_video
from nerfmac.config import NEAR, override
from nerfmac.config.rendering import RenderOptions
from nerfmac.geometry import NEAR_STEP, Sphere, near_plane_at
from nerfmac.rendering.renderer import TrainedField
from nerfmac.rendering.view_renderer import ViewRenderer
from tests.app.scenes.scene_files import pixels, save, write_transforms
from tests.scene_factory import CONFIG, nerfmac, write_scene

pytestmark = pytest.mark.usefixtures("on_the_cpu")


def images(channels=3):
    return np.stack([pixels(index, channels) for index in range(4)])


@pytest.fixture
def run(tmp_path):
    scene = load_scene(write_transforms(tmp_path / "scene", 4), split="none")
    return Training.begin(Run.begin(scene, CONFIG, progress=False), tmp_path / "run").run


def corner(path):
    with Image.open(path) as image:
        return np.asarray(image)[0, 0]


def test_the_mean_color_is_that_of_the_images_and_is_stored_with_the_run(run, tmp_path):
    expected = images().reshape(-1, 3).mean(axis=0) / 255.0
    np.testing.assert_allclose(run.scene.mean_color, expected, atol=0.005)
    assert Run.load(tmp_path / "run").scene.backdrop == run.scene.backdrop
    stored = json.loads((tmp_path / "run/scene.json").read_text())
    assert stored["mean_color"] == list(run.scene.backdrop)


def test_masked_pixels_do_not_count(tmp_path):
    path = write_transforms(tmp_path, 2)
    mask = np.zeros((16, 24), np.uint8)
    mask[:, 12:] = 255
    for index in range(2):
        save(tmp_path / f"masks/{index:03d}.png", mask)
    expected = images()[:2, :, 12:].reshape(-1, 3).mean(axis=0) / 255.0
    color = load_scene(path, split="none").views("train").mean_color()
    np.testing.assert_allclose(color, expected, atol=0.005)


def test_images_with_alpha_have_a_white_backdrop(balls):
    run = Run.begin(load_scene(balls), CONFIG, progress=False)
    assert run.scene.mean_color is None
    assert run.scene.backdrop == (1.0, 1.0, 1.0)


def test_videos_and_stills_show_the_backdrop_and_evaluation_does_not(run, tmp_path):
    camera = run.orbit(1, (8, 6))
    run.state.sampling["bits"] = mx.zeros_like(run.state.sampling["bits"])
    run.save(tmp_path / "run")
    expected = np.round(np.array(run.scene.backdrop) * 255)
    assert not np.allclose(expected, 255, atol=40)
    render_video(run, camera, tmp_path / "by_python", progress=False)
    np.testing.assert_allclose(corner(tmp_path / "by_python/frame_00000.png"), expected, atol=1)
    flags = ("--device", "cpu", "--frames", 1, "--size", "8x6")
    assert nerfmac("render", tmp_path / "run", "--out", tmp_path / "by_command", *flags) == 0
    np.testing.assert_allclose(corner(tmp_path / "by_command/frame_00000.png"), expected, atol=1)
    white = ("--background", "white", *flags)
    assert nerfmac("render", tmp_path / "run", "--out", tmp_path / "white", *white) == 0
    np.testing.assert_array_equal(corner(tmp_path / "white/frame_00000.png"), 255)
    render_video(run, camera, tmp_path / "depth", RenderOptions(output="depth"), progress=False)
    np.testing.assert_array_equal(corner(tmp_path / "depth/frame_00000.png"), 255)
    np.testing.assert_array_equal(run.render(camera[0]).color[0, 0], 1.0)


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
    usual, used = TrainedField.renderer, []

    def renderer(self, occupied=None):
        used.append(occupied.geometry.near)
        return usual(self, occupied)

    monkeypatch.setattr(TrainedField, "renderer", renderer)
    view = ViewRenderer(run.model.trained(run.state), options, subject=subject)
    view.render(camera(distance))
    view.render(replace(camera(distance), pose=camera(distance + 1e-3).pose))
    assert used == [pytest.approx(near)], "cameras with one near plane share a renderer"
