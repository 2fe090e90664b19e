"""Stereo, blurred, equirectangular, and transparent images of a ball in closed form."""

import numpy as np
import pytest
from PIL import Image

from nerfmac import Camera, Lens
from nerfmac.app.video import blurred
from nerfmac.app.video.encoding import _linear
from nerfmac.config.rendering import RenderOptions
from tests.app.video.ball import CENTER, FRONT, LENS, RADIUS, SIDE, hits, values_of
from tests.app.video.test_render_video import pixels, read_exr, render
from tests.pinhole import pixel_rays

EYES = 0.3


def image(run, tmp_path, camera, **shot):
    render(run, [camera], tmp_path / "out", RenderOptions(**shot), overwrite=True)
    return pixels(tmp_path / "out" / "frame_00000.png")


def eye(camera, right):
    pose = camera.pose.copy()
    pose[:, 3] += right * pose[:, 0]
    return Camera(camera.lens, pose)


@pytest.mark.parametrize(("layout", "axis"), [("side-by-side", 1), ("over-under", 0)])
def test_each_eye_sees_what_a_camera_in_its_place_sees(run, tmp_path, layout, axis):
    both = image(run, tmp_path, FRONT, output="opacity", stereo=layout, eye_distance=EYES)
    eyes = np.split(both, 2, axis=axis)
    for seen, place in zip(eyes, (-0.5 * EYES, 0.5 * EYES), strict=True):
        want = hits(*pixel_rays(eye(FRONT, place)))
        assert (seen[np.isfinite(want)] == 255).all()
        assert (seen[np.isinf(want)] == 0).all()
    assert (eyes[0] != eyes[1]).any()


def test_the_eyes_of_a_panorama_turn_with_the_head(run, tmp_path):
    width, height = 64, 32
    place = np.array([0.5, 0.1, 0.55])
    pose = np.c_[np.array([[0.0, 0.0, -1.0], [-1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]), place]
    camera = Camera(Lens(width, height, 9.0, 9.0, width / 2, height / 2), pose)
    shot = {"output": "opacity", "projection": "equirectangular"}
    both = image(run, tmp_path, camera, **shot, stereo="over-under", eye_distance=EYES)
    down, right = np.meshgrid(
        ((np.arange(height) + 0.5) / height - 0.5) * np.pi,
        ((np.arange(width) + 0.5) / width - 0.5) * 2 * np.pi,
        indexing="ij",
    )
    zero = np.zeros_like(right)
    ahead = np.stack([np.sin(right), zero, -np.cos(right)], axis=-1)
    across = np.stack([np.cos(right), zero, np.sin(right)], axis=-1)
    look = ahead * np.cos(down)[..., None] - np.stack([zero, np.sin(down), zero], axis=-1)
    for half, side in zip(np.split(both, 2), (-0.5, 0.5), strict=True):
        origin = place + side * EYES * across @ pose[:, :3].T
        offset = CENTER - origin
        direction = look @ pose[:, :3].T
        along = (offset * direction).sum(axis=-1)
        away = np.sqrt((offset**2).sum(axis=-1) - along**2)
        is_ahead = along > 0
        assert (half[(away < RADIUS - 0.02) & is_ahead] == 255).all()
        assert (half[(away > RADIUS + 0.02) | ~is_ahead] == 0).all()
        assert 10 < ((away < RADIUS - 0.02) & is_ahead).sum() < 800


def test_several_samples_are_the_mean_of_a_finer_image(run):
    small, fine = (Camera(LENS.scaled(*size), FRONT.pose) for size in ((24, 18), (144, 108)))
    want = values_of(run, fine, output="opacity").opacity
    want = want.reshape(18, 6, 24, 6).mean(axis=(1, 3))
    one, many = (
        values_of(run, small, output="opacity", samples_per_pixel=count).opacity
        for count in (1, 32)
    )
    assert np.abs(many - want).mean() < 0.25 * np.abs(one - want).mean()
    assert np.abs(many - want).max() < 0.16


def test_a_lens_blurs_what_is_out_of_focus_and_nothing_in_focus(run):
    distance = float(np.linalg.norm(FRONT.pose[:, 3] - CENTER))  # about the distance of its outline

    def soft(**lens) -> int:
        camera = Camera(LENS.scaled(24, 18), FRONT.pose)
        seen = values_of(run, camera, output="opacity", samples_per_pixel=24, **lens).opacity
        return int(((seen > 0.1) & (seen < 0.9)).sum())

    sharp = soft(depth_of_field=0.0)
    assert soft(depth_of_field=0.1, focus=distance) < 1.7 * sharp
    assert soft(depth_of_field=0.1, focus=0.5 * distance) > 2.5 * sharp


def test_an_open_shutter_blurs_along_the_motion_alone(run):
    def along(count):
        return [
            Camera(LENS, np.c_[FRONT.pose[:, :3], FRONT.pose[:, 3] + s * FRONT.pose[:, 0]])
            for s in np.linspace(0.0, 0.3, count, endpoint=False)
        ]

    takes = blurred(along, 1, 16, 0.5)
    assert [len(take) for take in takes] == [16]
    assert np.allclose(takes[0][-1].pose[:, 3], along(32)[15].pose[:, 3])
    moving = values_of(run, takes[0], output="opacity").opacity
    still = values_of(run, output="opacity", samples_per_pixel=16).opacity

    def width_of_edge(image):
        return int(((image > 0.05) & (image < 0.95)).sum())

    assert width_of_edge(moving[14:15]) > 2 * width_of_edge(still[14:15])
    assert width_of_edge(moving[:, 17:18]) < width_of_edge(moving[14:15]) + 3


def test_an_equirectangular_image_shows_each_direction_where_it_belongs(run):
    camera = Camera(Lens(72, 36, 1.0, 1.0, 36.0, 18.0), FRONT.pose)
    shot = {"output": "opacity", "projection": "equirectangular"}
    got = values_of(run, camera, **shot).opacity
    row, column = np.mgrid[:36, :72] + 0.5
    right, up = np.radians(5.0 * (column - 36.0)), np.radians(5.0 * (18.0 - row))
    own = np.cos(up) * np.sin(right), np.sin(up), -np.cos(up) * np.cos(right)
    want = hits(FRONT.pose[:, 3], np.stack(own, axis=-1) @ FRONT.pose[:, :3].T.astype(float))
    assert np.isfinite(want).sum() >= 4
    assert (got[np.isfinite(want)] > 0.9).all()
    assert (got[np.isinf(want)] < 0.1).all()


PURPLE = (0.6, 0.2, 0.8)
CLEAR = RenderOptions(background=None)


def saved_image(run, folder, shot):
    render(run, [FRONT, SIDE], folder, shot)
    with Image.open(folder / "frame_00000.png") as file:
        return file.mode, np.asarray(file) / 255.0


@pytest.mark.parametrize("output", ["rgb", "depth", "normal"])
def test_a_image_over_a_color_is_the_one_rendered_over_it(run, tmp_path, output):
    shot = {"output": output, "depth_range": (0.5, 3.0)}
    mode, clear = saved_image(run, tmp_path / "clear", RenderOptions(background=None, **shot))
    _, opaque = saved_image(run, tmp_path / "opaque", RenderOptions(background=PURPLE, **shot))
    assert mode == "RGBA"
    rgb, alpha = clear[..., :3], clear[..., 3:]
    outside = np.isinf(hits(*pixel_rays(FRONT)))
    assert (alpha[outside] == 0.0).all()
    assert alpha[~outside].mean() > 0.9
    assert np.abs(rgb * alpha + (1.0 - alpha) * PURPLE - opaque).max() < 2.0 / 255


def test_exr_files_are_linear_and_multiplied_by_alpha(run, tmp_path):
    render(run, [FRONT], tmp_path / "exr", CLEAR, format="exr")
    exr = read_exr(tmp_path / "exr" / "frame_00000.exr", 4)
    straight = values_of(run, background=None)
    rgb, alpha = straight.values, straight.opacity[..., None]
    assert exr.shape == (LENS.height, LENS.width, 4)
    assert np.array_equal(exr[..., 3:], alpha)
    assert exr[..., :3] == pytest.approx(_linear(rgb) * alpha, abs=1e-6)
    opaque = values_of(run, background=PURPLE).values
    assert rgb * alpha + (1.0 - alpha) * PURPLE == pytest.approx(opaque, abs=1e-5)


def test_blurred_pixels_over_nothing_keep_their_color(run):
    def seen(**shot):
        return values_of(run, Camera(LENS.scaled(24, 18), FRONT.pose), background=None, **shot)

    many, fine = seen(samples_per_pixel=32), seen(samples_per_pixel=1)
    edge = (many.opacity > 0.2) & (many.opacity < 0.8) & (fine.opacity > 0.99)
    assert edge.sum() > 3
    assert np.abs(many.values[..., :3] - fine.values[..., :3])[edge].max() < 0.1
