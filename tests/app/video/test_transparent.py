"""Compositing an image with transparent background over a color gives the opaque rendering."""

import numpy as np
import pytest
from PIL import Image

from nerfmac.app.video import RenderOptions, render_video
from nerfmac.app.video.series import _linear
from tests.app.video.ball import FRONT, LENS, SIDE, hits, values_of
from tests.app.video.test_render_video import read_exr
from tests.pinhole import pixel_rays

PURPLE = (0.6, 0.2, 0.8)
CLEAR = RenderOptions(background=None)


def image(run, folder, shot):
    render_video(run, [FRONT, SIDE], folder, shot, progress=False)
    with Image.open(folder / "frame_00000.png") as file:
        return file.mode, np.asarray(file) / 255.0


@pytest.mark.parametrize("output", ["rgb", "depth", "normal"])
def test_a_image_over_a_color_is_the_one_rendered_over_it(run, tmp_path, output):
    shot = {"output": output, "depth_range": (0.5, 3.0)}
    mode, clear = image(run, tmp_path / "clear", RenderOptions(background=None, **shot))
    _, opaque = image(run, tmp_path / "opaque", RenderOptions(background=PURPLE, **shot))
    assert mode == "RGBA"
    rgb, alpha = clear[..., :3], clear[..., 3:]
    outside = np.isinf(hits(*pixel_rays(FRONT)))
    assert (alpha[outside] == 0.0).all()
    assert alpha[~outside].mean() > 0.9
    assert np.abs(rgb * alpha + (1.0 - alpha) * PURPLE - opaque).max() < 2.0 / 255


def test_a_smooth_edge_has_no_dark_fringe(run, tmp_path):
    _, clear = image(run, tmp_path / "clear", RenderOptions(background=None, samples=16))
    _, sharp = image(run, tmp_path / "sharp", CLEAR)
    alpha = clear[..., 3]
    edge = (alpha > 0.2) & (alpha < 0.8)
    inside = sharp[..., 3] > 0.99
    assert edge.sum() > 10
    darkest = sharp[inside][:, 0].min()
    assert clear[edge][:, 0].min() > darkest - 0.05 > 0.2


def test_exr_files_are_linear_and_multiplied_by_alpha(run, tmp_path):
    render_video(run, [FRONT], tmp_path / "exr", CLEAR, form="exr", progress=False)
    exr = read_exr(tmp_path / "exr" / "frame_00000.exr", 4)
    straight = values_of(run, tmp_path, "npz", background=None)
    rgb, alpha = straight["rgb"], straight["opacity"][..., None]
    assert exr.shape == (LENS.height, LENS.width, 4)
    assert np.array_equal(exr[..., 3:], alpha)
    assert exr[..., :3] == pytest.approx(_linear(rgb) * alpha, abs=1e-6)
    opaque = values_of(run, tmp_path, "opaque", background=PURPLE)["rgb"]
    assert rgb * alpha + (1.0 - alpha) * PURPLE == pytest.approx(opaque, abs=1e-5)
