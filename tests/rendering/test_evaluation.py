"""Quality of a split: figures of every view, and images of none."""

import math
import time
import tracemalloc
from functools import partial

import mlx.core as mx
import numpy as np
import pytest

from nerfmac import Composited, InputError, Lens, Renderer, Views
from nerfmac.app.run.headline import REPETITIONS, TRIAL, seconds_per_pixel
from nerfmac.geometry import Camera, Cameras, camera_rays
from nerfmac.rendering.evaluation import evaluate, spread
from nerfmac.rendering.metrics import similarity

WIDTH, HEIGHT, VIEWS = 120, 80, 96


def gray(rays, _width):
    """Everything is an opaque gray."""
    count = rays.origin.shape[0]
    return Composited(mx.full((count, 3), 0.5), mx.ones(count), mx.ones(count))


@pytest.fixture
def views():
    camera = Camera.look_at((2, 1, 3), (0, 0, 0), (0, 0, 1), Lens.from_fov(1.0, WIDTH, HEIGHT))
    images = np.random.default_rng(1).integers(0, 255, (VIEWS, HEIGHT, WIDTH, 4), np.uint8)
    names = tuple(f"view {index}" for index in range(VIEWS))
    return Views(mx.array(images.reshape(-1, 4)), Cameras.stack([camera] * VIEWS), names)


def test_evaluation_holds_the_images_of_one_view_at_a_time(views):
    image = WIDTH * HEIGHT * 3 * 4  # bytes in float32
    list(evaluate(partial(Renderer, gray), views))  # what is imported and compiled once
    mx.synchronize()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    tracemalloc.start()
    outcomes = list(evaluate(partial(Renderer, gray), views))
    held, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(outcomes) == VIEWS
    assert held < image
    assert most < 2 * image  # on the host there is none
    assert mx.get_peak_memory() - before < VIEWS * image
    assert mx.get_active_memory() - before < image


def test_an_image_of_any_height_is_compared_in_the_memory_of_some_bands(monkeypatch):
    monkeypatch.setattr("nerfmac.rendering.metrics.BAND", 40 * WIDTH)
    peaks = []
    for height in (400, 1600):
        image, target = mx.random.uniform(shape=(2, height, WIDTH, 3))
        mx.eval(image, target)
        before = mx.get_active_memory()
        mx.reset_peak_memory()
        similarity(image, target).mean()
        peaks.append(mx.get_peak_memory() - before)
    assert peaks[1] < 1.5 * peaks[0]


@pytest.mark.parametrize(("background", "level"), [("white", 1.0), ("black", 0.0)])
def test_a_photos_alpha_is_blended_over_the_background(views, background, level):
    (first, *_) = evaluate(partial(Renderer, gray), views, background)
    rgba = np.array(views.image(0)) / 255.0
    target = rgba[..., :3] * rgba[..., 3:] + level * (1.0 - rgba[..., 3:])
    assert first.name == "view 0"
    assert first.psnr == pytest.approx(-10.0 * np.log10(np.mean((target - 0.5) ** 2)), abs=1e-3)


def test_a_image_that_is_not_finite_has_no_quality(views):
    def broken(rays, width):
        seen = gray(rays, width)
        return seen._replace(color=seen.color.at[7, 1].add(math.nan))

    with pytest.raises(InputError, match="view 0"):
        list(evaluate(partial(Renderer, broken), views))


class SlowGray:
    """A field like `gray`, with a simulated clock where every pixel takes `pace` seconds."""

    def __init__(self, pace, monkeypatch):
        self.pace, self.now, self.pixels = pace, 0.0, []
        monkeypatch.setattr(time, "perf_counter", lambda: self.now)

    def __call__(self, rays, width):
        self.pixels.append(rays.origin.shape[0])
        self.now += self.pace * self.pixels[-1]
        return gray(rays, width)


def drawing(tracer):
    return lambda camera: Renderer(tracer).pixels(camera, (1.0, 1.0, 1.0))


def test_a_pace_is_believed_once_its_trial_takes_long_enough(views, monkeypatch):
    slow = SlowGray(1e-3, monkeypatch)
    assert seconds_per_pixel(drawing(slow), [views.cameras[0]]) == pytest.approx(1e-3)
    assert sum(slow.pixels) == pytest.approx((2 + REPETITIONS) * TRIAL, rel=0.02)
    quick = SlowGray(1e-5, monkeypatch)
    assert seconds_per_pixel(drawing(quick), [views.cameras[0]]) == pytest.approx(1e-5)
    assert quick.pixels[-1] == WIDTH * HEIGHT


@pytest.mark.parametrize("count", [1, 2, 3, 22, 64, 200])
def test_views_up_to_any_point_of_the_order_are_spread_evenly(count):
    order = spread(count)
    assert sorted(order) == list(range(count))
    for taken in range(1, count + 1):
        gaps = np.diff([*sorted(order[:taken]), count])
        assert gaps.max() <= 2 * math.ceil(count / taken)


def shaded(rays, _width):
    """An opaque image with colors that depend on the ray directions."""
    count = rays.origin.shape[0]
    color = 0.5 + 0.4 * rays.direction
    return Composited(color, mx.ones(count), mx.ones(count))


@pytest.mark.parametrize("masked", [False, True])
def test_a_view_of_another_exposure_is_right_once_its_colors_are_corrected(masked):
    camera = Camera.look_at((2, 1, 3), (0, 0, 0), (0, 0, 1), Lens.from_fov(1.0, WIDTH, HEIGHT))
    color = shaded(camera_rays(camera), 0.0).color * mx.array([0.5, 0.9, 0.7]) + 0.05
    pixels = mx.round(255.0 * color).astype(mx.uint8)
    kept = None
    if masked:  # where the mask is black the image is wrong
        kept = mx.arange(WIDTH * HEIGHT) % WIDTH < WIDTH // 3
        pixels = mx.where(kept[:, None], pixels, 255 - pixels)
    views = Views(pixels, Cameras.stack([camera]), ("one",), kept)
    (quality,) = evaluate(partial(Renderer, shaded), views)
    assert quality.psnr < 25.0
    assert quality.psnr_corrected > 45.0
