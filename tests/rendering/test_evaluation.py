"""Quality of a split: figures of every view, and pictures of none."""

import tracemalloc

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.geometry.cameras import Camera, Cameras
from nerfmac.geometry.lenses import Lens
from nerfmac.ops.composite import Composited
from nerfmac.rendering.evaluation import evaluate
from nerfmac.rendering.renderer import Renderer
from nerfmac.scenes import Views

WIDTH, HEIGHT, VIEWS = 120, 80, 24


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
    picture = WIDTH * HEIGHT * 3 * 8  # bytes in float64, in which SSIM is computed
    list(evaluate(Renderer(grey), views))  # what is imported and compiled once
    tracemalloc.start()
    outcomes = list(evaluate(Renderer(grey), views))
    held, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(outcomes) == VIEWS
    assert held < picture
    assert most < 20 * picture


@pytest.mark.parametrize(("background", "level"), [("white", 1.0), ("black", 0.0)])
def test_a_photographs_alpha_is_blended_over_the_background(views, background, level):
    (first, *_) = evaluate(Renderer(grey), views, background)
    rgba = np.array(views.images[0]) / 255.0
    target = rgba[..., :3] * rgba[..., 3:] + level * (1.0 - rgba[..., 3:])
    assert first.name == "view 0"
    assert first.psnr == pytest.approx(-10.0 * np.log10(np.mean((target - 0.5) ** 2)), abs=1e-3)
