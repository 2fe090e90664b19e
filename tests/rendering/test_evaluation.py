"""Quality of a split: figures of every view, and pictures of none."""

import tracemalloc

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.geometry.cameras import Camera, Cameras
from nerfmac.geometry.lenses import Lens
from nerfmac.ops.composite import Composited
from nerfmac.rendering.evaluation import evaluate
from nerfmac.rendering.metrics import similarity
from nerfmac.rendering.renderer import Renderer
from nerfmac.scenes import Views

WIDTH, HEIGHT, VIEWS = 120, 80, 96


def grey(rays, _width):
    """Everything is an opaque grey."""
    count = rays.origin.shape[0]
    return Composited(mx.full((count, 3), 0.5), mx.ones(count), mx.ones(count))


@pytest.fixture
def views():
    camera = Camera.look_at((2, 1, 3), (0, 0, 0), (0, 0, 1), Lens.from_fov(1.0, WIDTH, HEIGHT))
    pictures = np.random.default_rng(1).integers(0, 255, (VIEWS, HEIGHT, WIDTH, 4), np.uint8)
    names = tuple(f"view {index}" for index in range(VIEWS))
    return Views(mx.array(pictures), Cameras.stack([camera] * VIEWS), names)


def test_evaluation_holds_the_pictures_of_one_view_at_a_time(views):
    picture = WIDTH * HEIGHT * 3 * 4  # bytes in float32
    list(evaluate(Renderer(grey), views))  # what is imported and compiled once
    mx.synchronize()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    tracemalloc.start()
    outcomes = list(evaluate(Renderer(grey), views))
    held, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(outcomes) == VIEWS
    assert held < picture
    assert most < 2 * picture  # on the host there is none
    assert mx.get_peak_memory() - before < VIEWS * picture
    assert mx.get_active_memory() - before < picture


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
def test_a_photographs_alpha_is_blended_over_the_background(views, background, level):
    (first, *_) = evaluate(Renderer(grey), views, background)
    rgba = np.array(views.images[0]) / 255.0
    target = rgba[..., :3] * rgba[..., 3:] + level * (1.0 - rgba[..., 3:])
    assert first.name == "view 0"
    assert first.psnr == pytest.approx(-10.0 * np.log10(np.mean((target - 0.5) ** 2)), abs=1e-3)
