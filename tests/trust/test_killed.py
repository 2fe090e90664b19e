"""Killed commands can be repeated without data loss: the short form of scripts/crash.py."""

import json

import crash
import pytest

from nerfmac.app.capture import capture, capture_scene
from nerfmac.app.capture.inputs import digests_of
from nerfmac.app.run import Run
from tests.app.capture.structures import write_images
from tests.scene_factory import FLAGS, nerfmac


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    return {job.name: job for job in crash.jobs(tmp_path_factory.mktemp("jobs"))}


@pytest.mark.parametrize("name", ["train", "video"])
def test_a_killed_job_is_repeated_to_the_same_bits(jobs, tmp_path, name):
    job = jobs[name]
    folders = [tmp_path / word for word in ("whole", "killed")]
    for folder in folders:
        folder.mkdir()
    whole = crash.undisturbed(job, folders[0])
    crash.killed(job, folders[1], 0.5 * whole.seconds)
    assert crash.lost(job, folders[1], whole) is None


def test_a_run_that_was_killed_before_its_first_checkpoint_begins_again(balls, tmp_path, capsys):
    out = tmp_path / "run"
    words = ("train", balls, *FLAGS, "--steps", 2, "--no-video", "--out", out)
    assert nerfmac(*words) == 0
    for path in out.iterdir():
        if path.name not in ("scene.json", "config.json"):
            path.unlink()
    (out / ".lock").write_text("process 1 on another")
    capsys.readouterr()
    assert nerfmac("train", "--resume", "--out", out, "--device", "cpu") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "is not a run" in line or "has no checkpoint" in line
    assert nerfmac(*words) == 0
    assert Run.load(out).state.step == 2


def test_a_capture_that_was_killed_as_it_began_goes_on(tmp_path, capsys):
    write_images(tmp_path / "photos", [f"{number}.png" for number in range(3)])
    out = tmp_path / "scene"
    words = ("capture", tmp_path / "photos", "--out", out)
    assert nerfmac(*words) == 2
    record = (out / capture.RECORD).read_text()
    capture.shutil.rmtree(out / capture.WORK)
    (out / ".lock").touch()
    for matching in ("auto", "exhaustive"):
        capsys.readouterr()
        assert nerfmac(*words, "--matching", matching) == 2
        assert "no two of the 3 images" in capsys.readouterr().err
    assert json.loads((out / capture.RECORD).read_text()) == {
        **json.loads(record),
        "matching": "exhaustive",
    }


def test_a_finished_capture_loses_what_a_kill_left_of_its_work(tmp_path):
    write_images(tmp_path / "photos", [f"{number}.png" for number in range(3)])
    out, work = tmp_path / "scene", tmp_path / "scene" / capture.WORK
    work.mkdir(parents=True)
    (work / "database.db").touch()
    source = str((tmp_path / "photos").resolve())
    options = {"source": source, "longest_side": 1920, "frames": None, "matching": "auto"}
    photos = [tmp_path / f"photos/{number}.png" for number in range(3)]
    files = digests_of(photos, tmp_path / "photos")
    record = {**options, "focal_35mm": None, "files": files, "registered": 3}
    (out / capture.RECORD).write_text(json.dumps(record))
    (out / "transforms.json").write_text("{}")
    assert capture_scene(tmp_path / "photos", out, progress=False) == out
    assert not work.exists()


def test_a_video_that_was_killed_as_it_removed_its_kept_frames_is_resumed(
    jobs, tmp_path, monkeypatch
):
    words = [str(word) for word in jobs["video"].command(tmp_path)]

    def end(folder):
        assert not list(folder.glob("frame_*")), "without its record they would not be resumed"
        raise KeyboardInterrupt

    monkeypatch.setattr("nerfmac.app.video.rendering.shutil.rmtree", end)
    assert nerfmac(*words) == 130
    monkeypatch.undo()
    assert nerfmac(*words) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"video.mp4"}
