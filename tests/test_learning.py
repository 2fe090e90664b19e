"""A warning is logged for a field that does not learn, and only then."""

import logging
from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest

from nerfmac.app.run import Run, reporting
from nerfmac.app.run.reporting import constant_psnr
from nerfmac.config import override
from tests.scene_factory import CONFIG

pytestmark = pytest.mark.usefixtures("on_the_cpu")


def warned(scene, caplog, monkeypatch, steps: int, **changes) -> list[str]:
    monkeypatch.setattr(reporting, "CHECKED_AT", 150)
    run = Run.begin(scene, override(CONFIG, **changes), progress=False)
    with caplog.at_level(logging.WARNING, "nerfmac"):
        run.train(steps=steps, progress=False)
    return [record.getMessage() for record in caplog.records]


def test_a_field_that_learns_nothing_is_said_once_with_what_to_try(scene, caplog, monkeypatch):
    (said,) = warned(scene, caplog, monkeypatch, 220, optimizer={"rate": 1e-9})
    assert "not learned the scene" in said
    assert "nerfmac inspect" in said


def test_a_field_that_learns_is_not_warned_of(scene, caplog, monkeypatch):
    assert warned(scene, caplog, monkeypatch, 220) == []


def opaque(views, colors):
    return replace(views, pixels=mx.array(colors.astype(np.uint8)))


def test_a_constant_images_psnr_is_that_of_the_colors_variance(scene):
    views = scene.views("train")
    drawn = np.random.default_rng(5).integers(0, 2, (views.pixels.shape[0], 1))
    colors = np.where(drawn, [[200, 40, 120]], [[100, 60, 20]])
    variance = ((np.array([100, 20, 100]) / 255 / 2) ** 2).mean()
    assert constant_psnr(opaque(views, colors), "srgb") == pytest.approx(
        -10 * np.log10(variance), abs=0.1
    )


def test_pixels_that_a_mask_leaves_out_do_not_count(scene):
    views = scene.views("train")
    kept = np.random.default_rng(6).random(views.pixels.shape[0]) < 0.5
    colors = np.where(kept[:, None], 77, np.random.default_rng(7).integers(0, 255, (len(kept), 3)))
    alike = replace(opaque(views, colors), kept=mx.array(kept))
    assert constant_psnr(alike, "srgb") > 70.0
    assert constant_psnr(opaque(views, colors), "srgb") < 20.0
