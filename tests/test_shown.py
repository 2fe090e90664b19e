"""Representations of the public objects in a notebook or at a prompt."""

import io
import math

import numpy as np
import pytest
from PIL import Image

from nerfmac import Evaluation, Rendered, ViewQuality
from nerfmac.config import PRESETS, override
from nerfmac.config.presets import vanilla


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_shown_by_its_name(name):
    assert repr(PRESETS[name]) == f"Config(preset {name})"
    assert repr(vanilla(PRESETS[name])) == f"Config(preset {name}, model vanilla)"


def test_a_configuration_is_shown_by_what_differs_from_its_preset():
    config = override(PRESETS["small"], seed=3, train={"steps": 500, "blend": "linear"})
    assert repr(config).splitlines() == [
        "Config(preset small with",
        "  seed         3, not 0",
        "  train.steps  500, not 5000",
        "  train.blend  'linear', not 'srgb')",
    ]


def test_what_is_rendered_is_shown_as_its_image():
    color = np.random.default_rng(3).uniform(-0.1, 1.1, (5, 7, 3)).astype(np.float32)
    rendered = Rendered(color, np.full((5, 7), 0.25, np.float32), np.ones((5, 7), np.float32))
    image = np.array(Image.open(io.BytesIO(rendered._repr_png_())))
    assert np.abs(image / 255.0 - np.clip(color, 0.0, 1.0)).max() < 0.51 / 255.0
    assert repr(rendered) == "Rendered(7x5, mean opacity 0.25)"


def test_an_evaluation_is_a_list_with_means():
    views = [ViewQuality("a", 30.0, 0.9, lpips=0.2), ViewQuality("b", 20.0, 0.7, lpips=0.1)]
    evaluation = Evaluation(views, split="test", of=3)
    assert evaluation == views
    assert (evaluation.psnr, evaluation.ssim) == (25.0, pytest.approx(0.8))
    shown = "Evaluation(2 of 3 test views: PSNR 25.00 dB, SSIM 0.8000, LPIPS 0.1500)"
    assert repr(evaluation) == shown
    assert math.isnan(Evaluation([ViewQuality("a", 30.0, 0.9)], split="test", of=1).lpips)
    assert math.isnan(Evaluation([], split="test", of=3).psnr)
