"""Whether images differ in exposure: gains along tracks, their spread, and what follows."""

import mlx.core as mx
import numpy as np
import pytest

from nerfmac import Lens, Views, load_scene
from nerfmac.config import override
from nerfmac.geometry import Bounds, Camera, Cameras, Tracks
from nerfmac.refine.track_colors import DIFFERENT, gain_spread, image_gains, observed_light
from nerfmac.training.resolve import SceneFacts, resolve
from tests.scene_factory import CONFIG

pytestmark = pytest.mark.usefixtures("on_the_cpu")

VIEWS, POINTS = 12, 150
SIZES = [(40, 30), (30, 40), (52, 24)] * (VIEWS // 3)


def srgb(light: np.ndarray) -> np.ndarray:
    return np.where(light < 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)


def views_with(gains: np.ndarray, noise: float = 0.1) -> Views:
    """Gray images with spots of 3 x 3 pixels: each point's own color, times an image's gain."""
    random = np.random.default_rng(11)
    colors = random.uniform(0.05, 0.4, (POINTS, 3))
    images, view, pixel, point = [], [], [], []
    for index, (width, height) in enumerate(SIZES):
        light = np.full((height, width, 3), 0.2)
        spots = [(x, y) for x in range(2, width - 2, 4) for y in range(2, height - 2, 4)]
        places = random.permutation(len(spots))
        seen = random.permutation(POINTS)[: len(spots)]
        for place, number in zip(places, seen, strict=False):
            x, y = spots[place]
            off = np.exp(noise * random.normal(size=3))
            light[y - 1 : y + 2, x - 1 : x + 2] = colors[number] * np.exp(gains[index]) * off
            view.append(index)
            pixel.append((x + 0.3, y + 0.9))
            point.append(number)
        images.append(np.rint(255 * srgb(np.clip(light, 0, 1))).astype(np.uint8).reshape(-1, 3))
    cameras = [
        Camera.look_at((2, 1, 3), (0, 0, 0), (0, 0, 1), Lens.from_fov(1.0, *size)) for size in SIZES
    ]
    tracks = Tracks(*map(np.array, (view, pixel, point)), np.zeros((POINTS, 3)), np.zeros(POINTS))
    names = tuple(str(index) for index in range(VIEWS))
    stacked = Cameras.stack(cameras)
    return Views(mx.array(np.concatenate(images)), stacked, names, tracks=tracks)


def gains_of(spread: float) -> np.ndarray:
    gains = np.random.default_rng(12).normal(size=(VIEWS, 3)) * spread * [1.0, 0.5, 2.0]
    return gains - np.median(gains, axis=0)


def test_light_is_that_of_the_spot_of_nine_pixels():
    views = views_with(np.zeros((VIEWS, 3)), noise=0.0)
    light = observed_light(views, views.tracks)
    first = np.flatnonzero(views.tracks.point == views.tracks.point[0])
    assert len(first) > 3
    np.testing.assert_allclose(light[first], np.tile(light[0], (len(first), 1)), rtol=1e-6)
    assert np.ptp(light[:50], axis=0).min() > 0.1


def test_light_at_a_images_edge_is_of_pixels_that_there_are():
    views = views_with(np.zeros((VIEWS, 3)))
    corner = np.array(SIZES[1]) - 0.1
    tracks = Tracks(np.array([1]), corner[None], np.array([0]), np.zeros((1, 3)), np.zeros(1))
    assert np.isfinite(observed_light(views, tracks)).all()


def test_gains_of_images_come_back_from_their_tracks():
    gains = gains_of(0.3)
    views = views_with(gains)
    light = observed_light(views, views.tracks)
    got = image_gains(views.tracks, np.log(light), VIEWS)
    np.testing.assert_allclose(got, gains, atol=0.08)
    assert np.abs(got - gains).mean() < 0.03


def test_the_spread_is_each_channels_and_an_image_gone_wrong_does_not_count():
    gains = gains_of(0.15)
    gains[3] += 1.5
    want = 1.4826 * np.median(np.abs(gains - np.median(gains, axis=0)), axis=0)
    got = gain_spread(views_with(gains))
    np.testing.assert_allclose(got, want, rtol=0.35, atol=0.02)
    assert got[1] < got[0] < got[2]
    assert gain_spread(views_with(np.zeros((VIEWS, 3)))).max() < 0.4 * DIFFERENT


@pytest.mark.parametrize(
    ("name", "differs"), [("mouse_colmap", True), ("phone_beer/sparse/0", False)]
)
def test_photos_differ_and_the_frames_of_a_video_hardly(real_scenes, name, differs):
    scene = load_scene(real_scenes / name, split=8, downscale=8)
    spread = gain_spread(scene.views("train", progress=False))
    assert (spread > 0.02).all()
    assert (spread.max() > DIFFERENT) == differs


@pytest.mark.parametrize(
    ("given", "spread", "want"),
    [(None, 0.3, True), (None, 0.0, False), (True, 0.0, True), (False, 0.3, False)],
)
def test_exposures_are_refined_where_images_differ_unless_the_user_says(
    given, spread, want, caplog
):
    caplog.set_level("INFO", "nerfmac")
    config = override(CONFIG, refine={"exposures": given})
    got = resolve(config, SceneFacts(Bounds(1.0)), views_with(gains_of(spread)))
    assert got.refine.exposures is want
    assert ("colors of sparse points" in caplog.text) == (given is None)
