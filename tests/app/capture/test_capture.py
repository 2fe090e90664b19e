"""Capture of a scene from a video or photos, and its error messages."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from nerfmac import CaptureOptions, InputError, load_scene
from nerfmac.app.capture import capture, capture_scene, captured, inputs, stored_verdict, structure
from nerfmac.app.capture.findings import Finding, Verdict
from nerfmac.app.capture.source import Source
from nerfmac.app.capture.structure import Solver
from nerfmac.app.video.encoding import write_video
from tests.app.capture.structures import ring_of, write_images
from tests.app.cli.refusals import refused
from tests.scene_factory import nerfmac

NAMES = [f"{number:02}.png" for number in range(12)]


@pytest.fixture(autouse=True)
def somewhere(tmp_path, monkeypatch):
    """Work in a separate folder, with pycolmap replaced."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(capture, "need_pycolmap", lambda: None)


@pytest.fixture
def photos(tmp_path):
    write_images(tmp_path / "garden", NAMES)
    return tmp_path / "garden"


@pytest.fixture
def solved(monkeypatch):
    """Solve every capture with a ring of `asked["cameras"]` cameras, and record the calls."""
    asked = {"cameras": 12, "calls": []}

    def solve(self, matching):
        asked["calls"].append((len(self.images), matching))
        found = ring_of(asked["cameras"], scale=2.0, rotation=np.eye(3), offset=np.ones(3))
        renamed = [
            entry._replace(name=image.name)
            for entry, image in zip(found.model.images, self.images, strict=False)
        ]
        sparse = self.folder / "sparse"
        sparse.mkdir(exist_ok=True)
        (sparse / "cameras.bin").write_bytes(b"model")
        return found._replace(model=found.model._replace(images=renamed), folder=sparse)

    monkeypatch.setattr(Solver, "solve", solve)
    return asked


def test_photos_become_a_scene_with_a_report(photos, tmp_path, solved, caplog):
    caplog.set_level("INFO", "nerfmac")
    assert nerfmac("capture", photos, "--out", tmp_path / "scene") == 0
    assert (
        "12 of 12 images have a camera; the mean reprojection error is 0.50 pixels" in caplog.text
    )
    scene = load_scene(tmp_path / "scene")
    assert len(scene.splits["train"]) + len(scene.splits["test"]) == 12
    report = json.loads((tmp_path / "scene" / "capture.json").read_text())
    assert (report["given"], report["registered"], report["points"]) == (12, 12, 200)
    assert {path.name for path in (tmp_path / "scene").iterdir()} == {
        *("images", "sparse", "transforms.json", "points.ply", "cameras.png", "capture.json")
    }
    assert (tmp_path / "scene" / "sparse" / "0" / "cameras.bin").read_bytes() == b"model"
    assert solved["calls"] == [(12, "auto")]


ORDER = Finding("order", "03.png and 04.png look 171 degrees apart", "record again")
FAR = Finding("far", "07.png is far away", "remove this image", is_refused=False)


@pytest.fixture
def judged(solved, monkeypatch):
    """Return the findings of the verdict on every capture, at first a warning."""
    solve, findings = Solver.solve, [FAR]

    def judge(self, matching):
        verdict = Verdict(tuple(findings))
        return solve(self, matching)._replace(verdict=verdict, tried=("fewer matches",))

    monkeypatch.setattr(Solver, "solve", judge)
    return findings


def test_a_warning_about_poses_is_logged_and_stored(photos, tmp_path, judged, caplog, capsys):
    capture_scene(photos, tmp_path / "scene", progress=False)
    assert caplog.messages == ["07.png is far away; remove this image"]
    assert stored_verdict(tmp_path / "scene") == Verdict((FAR,))
    assert nerfmac("inspect", tmp_path / "scene", "--out", tmp_path / "cameras.png") == 0
    assert "07.png is far away\n" in capsys.readouterr().out


def test_wrong_poses_are_refused_with_what_was_tried_and_can_be_kept(
    photos, tmp_path, judged, solved, capsys, caplog
):
    judged.append(ORDER)
    out = tmp_path / "scene"
    assert nerfmac("capture", photos, "--out", out) == 2
    said = capsys.readouterr().err
    assert "03.png and 04.png look 171 degrees apart; record again" in said
    assert "fewer matches did not help" in said
    assert "--frames" not in said
    assert not (out / "transforms.json").exists()
    for command in (("capture", photos, "--out", out), ("inspect", out), ("train", out)):
        assert nerfmac(*command) == 2
        assert "03.png and 04.png look 171 degrees apart" in capsys.readouterr().err
    assert len(solved["calls"]) == 1
    assert nerfmac("capture", photos, "--out", out, "--accept-poses") == 0
    assert ORDER.evidence in caplog.text
    assert stored_verdict(out).is_refused
    assert (out / "transforms.json").exists()


def test_a_refused_video_is_captured_again_with_more_frames(tmp_path, judged):
    random = np.random.default_rng(0)
    frames = random.integers(0, 255, (12, 48, 64, 3), np.uint8)
    write_video(tmp_path / "walk.mp4", frames, fps=8)
    judged.insert(0, ORDER)
    with pytest.raises(InputError, match=r"or extract more frames, .* --frames 10"):
        capture_scene(
            tmp_path / "walk.mp4", tmp_path / "walk", CaptureOptions(frames=6), progress=False
        )


def test_a_focal_length_that_is_given_goes_before_exifs_and_reaches_the_solver(
    photos, tmp_path, solved, monkeypatch, capsys
):
    focals = []
    solve = Solver.solve

    def noted(self, matching):
        focals.extend({image.focal for image in self.images})
        return solve(self, matching)

    monkeypatch.setattr(Solver, "solve", noted)
    assert nerfmac("capture", photos, "--out", tmp_path / "s", "--focal-35mm", 26) == 0
    assert focals == [pytest.approx(26 * np.hypot(64, 48) / 43.27)]
    capsys.readouterr()
    refused(
        *(capsys, tmp_path, "capture", photos, "--out", tmp_path / "t", "--focal-35mm", 1),
        names=["--focal-35mm is 1"],
    )


@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ("take_images", "completed work is in garden; run the same command again to continue"),
        ("without_copies", "nothing was saved"),
    ],
)
def test_an_interrupted_capture_says_in_one_line_what_is_kept(
    photos, tmp_path, capfd, monkeypatch, where, kept
):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Source if where == "without_copies" else inputs, where, interrupt)
    monkeypatch.chdir(photos.parent)
    photos.rename("given")
    assert nerfmac("capture", "given", "--out", "garden") == 130
    assert capfd.readouterr().err.splitlines()[-1] == f"nerfmac: interrupted; {kept}"


def test_photos_beside_another_programs_capture_file_are_captured(photos, solved):
    (photos / "capture.json").write_text('{"device": "phone"}')
    assert captured(photos) == Path("captures/garden")


@pytest.fixture
def solver(tmp_path, photos):
    images = [inputs.CapturedImage(name, 64, 48, 0.0) for name in NAMES]
    (tmp_path / "work").mkdir()

    class Bar:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

        def update(self, count):
            counted.append(count)
            if solver.is_interrupted:
                raise KeyboardInterrupt

    counted = []
    solver = Solver(tmp_path / "work", photos, images, lambda name, total: Bar())
    solver.counted, solver.is_interrupted = counted, False
    return solver


def stage_is(monkeypatch, program):
    start, processes = subprocess.Popen, []

    def started(command, **how):
        processes.append(start([sys.executable, "-c", program], **how))
        return processes[-1]

    monkeypatch.setattr(structure.subprocess, "Popen", started)
    return processes


def test_a_stage_that_fails_is_an_error_with_its_last_words(tmp_path):
    with pytest.raises(
        InputError, match=r"stage nonsense failed with code 1: FileNotFoundError: .*; log: "
    ):
        structure.run_stage("nonsense", tmp_path, None)


def test_a_stage_is_ended_by_an_interruption(solver, monkeypatch):
    processes = stage_is(monkeypatch, "import time; print(1, flush=True); time.sleep(600)")
    solver.is_interrupted = True
    with pytest.raises(KeyboardInterrupt):
        solver.run("mapping", 12)
    assert processes[0].poll() is not None
