"""Cameras and focal lengths that are known are found again by pycolmap."""

import json
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from pose_differences import differences

from nerfmac.app.capture import capture_scene, focal, structure
from nerfmac.app.capture.structure import Solver
from nerfmac.app.scenes import load_scene
from nerfmac.app.scenes.readers.colmap_model import read_model
from nerfmac.app.video.encoding import write_video
from tests.app.capture.corner import LENS, cameras, seen
from tests.app.capture.matched_ring import WIDTH, write_matches

pytest.importorskip("pycolmap", reason="needs pycolmap, of the extra capture")

pytestmark = pytest.mark.slow


@pytest.fixture
def solver(tmp_path):
    """Return a function that gives a solver of images with matches; `known` is their focal."""

    def solver_of(known=0.0, **ring):
        images = write_matches(tmp_path, **ring)
        images = [image._replace(focal=known * WIDTH) for image in images]
        (tmp_path / "images").mkdir()
        bar = SimpleNamespace(update=lambda count: None)
        return Solver(tmp_path, tmp_path / "images", images, lambda *_: nullcontext(bar))

    return solver_of


@pytest.fixture
def trials(monkeypatch):
    done = []

    def choose(tried):
        done.extend(tried)
        return focal.choose_trial(tried)

    monkeypatch.setattr(structure, "GUESSES", (0.85, 1.4))
    monkeypatch.setattr(structure, "choose_trial", choose)
    return done


def test_a_wrong_guess_that_keeps_few_points_does_not_win(solver, trials):
    found = solver(focal=1.4)._map("sequential")
    least = min(trials, key=lambda trial: trial.error)
    assert abs(least.focal - 1.4) > 0.01, "the least error alone is that of a wrong focal length"
    assert found.trial.guess == 1.4
    assert found.focal == pytest.approx(1.4, rel=0.005)
    assert len(found.model.images) == 12


@pytest.mark.daily
def test_images_that_fit_any_focal_length_are_used_with_the_usual_one_and_a_warning(solver):
    found = solver(focal=1.0, arc=6.0, count=8)._map("sequential")
    assert len(found.model.images) == 8
    (camera,) = read_model(found.folder).cameras.values()
    assert camera.parameters["fl_x"] == pytest.approx(focal.TYPICAL * WIDTH)
    (finding,) = found.verdict.findings
    assert finding.kind == "focal length"
    assert not finding.is_refused
    assert "--focal-35mm" in finding.advice


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
