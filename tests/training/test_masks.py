"""Masked pixels are excluded from training and evaluation."""

from dataclasses import replace
from functools import partial

import mlx.core as mx
import numpy as np
import pytest

from nerfmac import Composited, Goal, Renderer
from nerfmac.rendering.evaluation import evaluate
from tests.scene_factory import CONFIG, initial, trainer_of

pytestmark = pytest.mark.usefixtures("on_the_cpu")


@pytest.fixture
def kept(scene):
    """Return which pixels to look at, two thirds of them, as bool on the host."""
    count = scene.views("train").pixels.shape[0]
    return np.random.default_rng(8).random(count) < 2 / 3


def painted(views, kept):
    """Return the views, with noise where they are not kept."""
    noise = np.random.default_rng(3).integers(0, 255, views.pixels.shape, np.uint8)
    pixels = np.where(kept[:, None], np.array(views.pixels), noise)
    return replace(views, pixels=mx.array(pixels))


def trained(scene, views):
    trainer = trainer_of(CONFIG, scene.bounds, views)
    *_, last = trainer.train(initial(trainer), Goal(steps=6))
    return last


def test_what_is_covered_changes_nothing_that_is_learned(scene, kept):
    views = scene.views("train")
    clean = trained(scene, replace(views, kept=mx.array(kept)))
    noisy = trained(scene, replace(painted(views, kept), kept=mx.array(kept)))
    assert noisy.loss == clean.loss
    for name, values in clean.state.arrays().items():
        assert np.array_equal(np.array(values), np.array(noisy.state.arrays()[name])), name
    assert trained(scene, painted(views, kept)).loss != clean.loss, "noise is seen without a mask"


def gray(rays, _width):
    """Everything is an opaque gray."""
    count = rays.origin.shape[0]
    return Composited(mx.full((count, 3), 0.5), mx.ones(count), mx.ones(count))


def test_what_is_covered_counts_for_no_figure(scene, kept):
    views = replace(scene.views("train"), kept=mx.array(kept))
    clean = list(evaluate(partial(Renderer, gray), views))
    noisy = list(
        evaluate(partial(Renderer, gray), replace(painted(views, kept), kept=mx.array(kept)))
    )
    truth = views.photo(0)
    first = kept[: truth.shape[0] * truth.shape[1]]
    error = np.square(truth.reshape(-1, 3)[first] - 0.5).mean()
    assert clean[0].psnr == pytest.approx(-10 * np.log10(error), abs=1e-3)
    assert [view.psnr for view in noisy] == pytest.approx([view.psnr for view in clean], abs=1e-3)
    without = list(evaluate(partial(Renderer, gray), painted(replace(views, kept=None), kept)))
    assert without[0].psnr != pytest.approx(clean[0].psnr, abs=0.1)
