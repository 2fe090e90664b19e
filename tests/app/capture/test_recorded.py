"""Cameras and focal lengths that are known are found again by pycolmap."""

import json
from pathlib import Path

import numpy as np
import pytest
from pose_differences import differences

from nerfmac.app.capture import capture_scene
from nerfmac.app.scenes import load_scene
from nerfmac.app.video.encoding import write_video
from tests.app.capture.corner import LENS, cameras, seen

pytest.importorskip("pycolmap", reason="needs pycolmap, of the extra capture")

pytestmark = pytest.mark.slow


def test_a_recorded_corner(tmp_path):
    truth = cameras(12)
    path = tmp_path / "corner.mp4"
    write_video(path, (seen(camera) for camera in truth), fps=8)
    folder = capture_scene(path, tmp_path / "scene", progress=False)
    report = json.loads((folder / "capture.json").read_text())
    assert report["registered"] == report["given"] == 12
    assert report["mean_reprojection_error"] < 1.0
    frames = load_scene(folder, split="none").splits["train"]
    numbers = [int(Path(frame.name).stem.removeprefix("frame_")) for frame in frames]
    poses = np.stack([frame.camera.pose for frame in frames]).astype(float)
    away, degrees = differences(poses, np.stack([truth[n].pose for n in numbers]).astype(float))
    assert np.median(away) < 0.01
    assert np.median(degrees) < 0.5
    assert frames[0].camera.lens.fl_x == pytest.approx(LENS.fl_x, rel=0.02)
