"""Pairs of images for two eyes, against the ball that they look at."""

import numpy as np
import pytest
from PIL import Image

from nerfmac.app.video import RenderOptions, render_video
from nerfmac.common.checks import InputError
from nerfmac.geometry.cameras import Camera
from nerfmac.geometry.lenses import Lens
from tests.app.video.ball import CENTER, FRONT, RADIUS, hits, rays

EYES = 0.3


def image(run, tmp_path, camera, **shot):
    render_video(
        run, [camera], tmp_path / "out", RenderOptions(**shot), overwrite=True, progress=False
    )
    with Image.open(tmp_path / "out" / "frame_00000.png") as file:
        return np.asarray(file).copy()


def eye(camera, right):
    pose = camera.pose.copy()
    pose[:, 3] += right * pose[:, 0]
    return Camera(camera.lens, pose)


@pytest.mark.parametrize(("layout", "axis"), [("side-by-side", 1), ("over-under", 0)])
def test_each_eye_sees_what_a_camera_in_its_place_sees(run, tmp_path, layout, axis):
    both = image(run, tmp_path, FRONT, output="opacity", stereo=layout, eyes=EYES)
    eyes = np.split(both, 2, axis=axis)
    for seen, place in zip(eyes, (-0.5 * EYES, 0.5 * EYES), strict=True):
        want = hits(*rays(eye(FRONT, place)))
        assert (seen[np.isfinite(want)] == 255).all()
        assert (seen[np.isinf(want)] == 0).all()
    assert (eyes[0] != eyes[1]).any()


def test_the_eyes_of_a_panorama_turn_with_the_head(run, tmp_path):
    width, height = 64, 32
    place = np.array([0.5, 0.1, 0.55])
    pose = np.c_[np.array([[0.0, 0.0, -1.0], [-1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]), place]
    camera = Camera(Lens(width, height, 9.0, 9.0, width / 2, height / 2), pose)
    shot = {"output": "opacity", "projection": "equirectangular"}
    both = image(run, tmp_path, camera, **shot, stereo="over-under", eyes=EYES)
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


def test_what_does_not_go_together_is_refused(run, tmp_path):
    for shot in ({"stereo": "side-by-side"}, {"eyes": 0.1}):
        with pytest.raises(InputError, match="--eye-distance"):
            RenderOptions(**shot)
    with pytest.raises(InputError, match="stereo is 'crossed'"):
        RenderOptions(stereo="crossed", eyes=0.1)
    stereo = RenderOptions(stereo="over-under", eyes=0.1)
    with pytest.raises(InputError, match="stereo cannot be combined with several runs"):
        render_video([run, run], [FRONT], tmp_path / "out", stereo, progress=False)
    with pytest.raises(InputError, match="only one run and one eye"):
        render_video(run, [FRONT], tmp_path / "out", stereo, form="npz", progress=False)
