"""Quality curves use held-out views, and their points are denser at the start."""

from types import SimpleNamespace

import numpy as np
import pytest

from nerfmac.app.measure.models import (
    HeldOutViews,
    every_nth_pixel,
    followed,
)
from nerfmac.app.scenes import load_scene
from nerfmac.geometry.cameras import Camera
from nerfmac.geometry.lenses import Lens
from nerfmac.geometry.rays import camera_rays
from nerfmac.training.goal import Goal
from tests.scene_factory import HEIGHT, WIDTH, write_scene

pytestmark = pytest.mark.usefixtures("on_the_cpu")


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    return load_scene(write_scene(tmp_path_factory.mktemp("scene"), test=5))


def photos(scene):
    views = scene.views("test")
    return [np.array(views.blended(index)) for index in range(len(views.names))]


@pytest.mark.parametrize("step", [1, 2, 3, 7])
def test_every_nth_pixel_looks_along_that_pixel_s_ray(step):
    lens = Lens(20, 15, 22.0, 24.0, 9.0, 8.5, 0.1, -0.05)
    camera = Camera.look_at((2.0, 0.3, 0.4), (0.5, 0.5, 0.5), (0.1, 0.2, 1.0), lens)
    fewer = every_nth_pixel(camera, step)
    every = np.array(camera_rays(camera).direction).reshape(15, 20, 3)
    every = every[step // 2 :: step, step // 2 :: step]
    assert every.shape[:2] == (fewer.lens.height, fewer.lens.width)
    got = np.array(camera_rays(fewer).direction).reshape(every.shape)
    np.testing.assert_allclose(got, every, atol=2e-6)


def test_the_psnr_is_that_of_the_views_chosen(scene):
    views, truth = HeldOutViews(scene, 3, "srgb"), photos(scene)
    assert views.names == [scene.views("test").names[index] for index in (0, 2, 4)]
    remaining = iter((0, 2, 4))
    # An error of a tenth everywhere is 20 dB.
    assert views.psnr(lambda _: truth[next(remaining)] + np.float32(0.1)) == pytest.approx(20.0)


def test_fewer_pixels_are_compared_with_their_own_photo(scene):
    views, truth = (
        HeldOutViews(scene, 1, "srgb", most_pixels=WIDTH * HEIGHT // 4),
        photos(scene),
    )
    (camera,) = views.cameras
    assert (camera.lens.width, camera.lens.height) == (WIDTH // 2, HEIGHT // 2)
    assert views.psnr(lambda _: truth[0][1::2, 1::2] + np.float32(0.1)) == pytest.approx(20.0)


def test_each_moment_is_due_once_and_those_that_passed_together_too():
    class Run:
        state = SimpleNamespace(train_seconds=0.0)

        def fit(self, goal):
            assert goal.seconds == 100.0
            for self.state.train_seconds in (0.9, 1.1, 1.2, 20.0, 24.9, 25.1, 120.0, 200.0):
                yield None

    # Moments are 1, 4, 9, 16 ... 81, 100.
    due = [is_due for _, is_due in followed(Run(), Goal(seconds=100.0), 10)]
    assert due == [False, True, False, True, False, True, True, False]
