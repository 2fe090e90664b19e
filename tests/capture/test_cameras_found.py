"""Cameras that are known are found again from pictures alone, by pycolmap."""

import json
from pathlib import Path

import numpy as np
import pytest

from nerfmac.capture import capture_scene
from nerfmac.film.video import write_video
from nerfmac.scenes import load_scene
from tests.capture.corner import LENS, cameras, papers, seen

pytest.importorskip("pycolmap", reason="needs pycolmap, of the extra capture")


def differences(found, truth):
    """Return distances, in mean radii, and degrees between two sets of poses (n, 3, 4).

    The first is moved onto the second by the similarity that fits its positions best (Umeyama).
    """
    eyes, true = found[:, :, 3], truth[:, :, 3]
    centred, onto = eyes - eyes.mean(axis=0), true - true.mean(axis=0)
    left, values, right = np.linalg.svd(onto.T @ centred)
    signs = np.array([1, 1, np.sign(np.linalg.det(left @ right))])
    turn = left * signs @ right
    scale = (values * signs).sum() / (centred**2).sum()
    away = np.linalg.norm(scale * centred @ turn.T - onto, axis=1)
    cosine = (np.einsum("ij,njk,nik->n", turn, found[:, :, :3], truth[:, :, :3]) - 1) / 2
    return away / np.linalg.norm(onto, axis=1).mean(), np.degrees(np.arccos(np.clip(cosine, -1, 1)))


def test_the_comparison_sees_what_is_wrong():
    truth = np.stack([camera.pose for camera in cameras(9)]).astype(float)
    turn = np.linalg.qr(np.random.default_rng(6).normal(size=(3, 3)))[0]
    turn *= np.sign(np.linalg.det(turn))
    moved = np.concatenate([turn @ truth[:, :, :3], 3.0 * truth[:, :, 3:]], axis=2)
    moved[:, :, 3] = moved[:, :, 3] @ turn.T + [1, 2, 3]
    away, degrees = differences(moved, truth)
    assert away.max() < 1e-6
    assert degrees.max() < 0.05
    moved[4, :, 3] += 0.3
    assert differences(moved, truth)[0].max() > 0.02


@pytest.mark.slow
def test_a_filmed_corner(tmp_path):
    truth, sheets = cameras(12), papers()
    path = tmp_path / "corner.mp4"
    write_video(path, (seen(camera, sheets) for camera in truth), fps=8)
    folder = capture_scene(path, tmp_path / "scene", progress=False)
    report = json.loads((folder / "capture.json").read_text())
    assert report["registered"] == report["given"] == 12
    assert report["mean_reprojection_error"] < 1.0
    frames = load_scene(folder, test_every=0).splits["train"]
    numbers = [int(Path(frame.name).stem.removeprefix("frame_")) for frame in frames]
    poses = np.stack([frame.camera.pose for frame in frames]).astype(float)
    away, degrees = differences(poses, np.stack([truth[n].pose for n in numbers]).astype(float))
    assert np.median(away) < 0.01
    assert np.median(degrees) < 0.5
    assert frames[0].camera.lens.fl_x == pytest.approx(LENS.fl_x, rel=0.02)
