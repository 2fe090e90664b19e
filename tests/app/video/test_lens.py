"""Frames that are means of several images, and images all around."""

import numpy as np

from nerfmac.app.video import RenderOptions, render_video
from nerfmac.app.video.frames import blurred
from nerfmac.geometry.cameras import Camera
from nerfmac.geometry.lenses import Lens
from tests.app.video.ball import CENTER, FRONT, LENS, arrays, hits, values_of


def test_several_samples_are_the_mean_of_a_finer_image(run, tmp_path):
    small, fine = (Camera(LENS.scaled(*size), FRONT.pose) for size in ((24, 18), (144, 108)))
    want = values_of(run, tmp_path, "fine", fine, output="opacity")["opacity"]
    want = want.reshape(18, 6, 24, 6).mean(axis=(1, 3))
    one, many = (
        values_of(run, tmp_path, str(count), small, output="opacity", samples=count)["opacity"]
        for count in (1, 32)
    )
    assert np.abs(many - want).mean() < 0.25 * np.abs(one - want).mean()
    assert np.abs(many - want).max() < 0.16


def test_a_lens_blurs_what_is_out_of_focus_and_nothing_in_focus(run, tmp_path):
    distance = float(np.linalg.norm(FRONT.pose[:, 3] - CENTER))  # about the distance of its outline

    def soft(**lens) -> int:
        camera, name = Camera(LENS.scaled(24, 18), FRONT.pose), "-".join(map(str, lens.values()))
        seen = values_of(run, tmp_path, name, camera, output="opacity", samples=24, **lens)
        seen = seen["opacity"]
        return int(((seen > 0.1) & (seen < 0.9)).sum())

    sharp = soft(aperture=0.0)
    assert soft(aperture=0.1, focus=distance) < 1.7 * sharp
    assert soft(aperture=0.1, focus=0.5 * distance) > 2.5 * sharp


def test_an_open_shutter_blurs_along_the_motion_alone(run, tmp_path):
    def along(count):
        return [
            Camera(LENS, np.c_[FRONT.pose[:, :3], FRONT.pose[:, 3] + s * FRONT.pose[:, 0]])
            for s in np.linspace(0.0, 0.3, count, endpoint=False)
        ]

    takes = blurred(along, 1, 16, 0.5)
    assert [len(take) for take in takes] == [16]
    assert np.allclose(takes[0][-1].pose[:, 3], along(32)[15].pose[:, 3])
    render_video(
        run, takes, tmp_path / "moving", RenderOptions(output="opacity"), form="npz", progress=False
    )
    moving = arrays(tmp_path / "moving" / "frame_00000.npz")["opacity"]
    still = values_of(run, tmp_path, "still", output="opacity", samples=16)["opacity"]

    def width_of_edge(image):
        return int(((image > 0.05) & (image < 0.95)).sum())

    assert width_of_edge(moving[14:15]) > 2 * width_of_edge(still[14:15])
    assert width_of_edge(moving[:, 17:18]) < width_of_edge(moving[14:15]) + 3


def test_an_equirectangular_image_shows_each_direction_where_it_belongs(run, tmp_path):
    camera = Camera(Lens(72, 36, 1.0, 1.0, 36.0, 18.0), FRONT.pose)
    shot = {"output": "opacity", "projection": "equirectangular"}
    got = values_of(run, tmp_path, "round", camera, **shot)["opacity"]
    row, column = np.mgrid[:36, :72] + 0.5
    right, up = np.radians(5.0 * (column - 36.0)), np.radians(5.0 * (18.0 - row))
    own = np.cos(up) * np.sin(right), np.sin(up), -np.cos(up) * np.cos(right)
    want = hits(FRONT.pose[:, 3], np.stack(own, axis=-1) @ FRONT.pose[:, :3].T.astype(float))
    assert np.isfinite(want).sum() >= 4
    assert (got[np.isfinite(want)] > 0.9).all()
    assert (got[np.isinf(want)] < 0.1).all()
