"""A full disk, or a killed command, loses nothing that was saved before."""

import json
import resource
import signal
import sys
from contextlib import contextmanager

import crash
import pytest

from nerfmac import Goal, Run, resume, train
from nerfmac.app.capture import capture
from nerfmac.app.run.reporting import NAME, read_scalars
from tests.app.capture.structures import write_images
from tests.scene_factory import CONFIG, FLAGS, nerfmac

pytestmark = pytest.mark.slow


@contextmanager
def room_for(size):
    """Context manager: no file can be larger than `size` bytes. Python would keep modules that it
    imports meanwhile in files that are cut short, and all later imports of them would fail."""
    before, writes = resource.getrlimit(resource.RLIMIT_FSIZE), sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
        sys.dont_write_bytecode = writes


def told(capsys):
    """Return the only line on standard error other than progress bars and log."""
    complaint = capsys.readouterr().err
    assert "Traceback" not in complaint
    *_, line = complaint.splitlines()
    assert line.startswith("nerfmac: ")
    return line


MESH = ("--threshold", 0.01, "--resolution", 24)
FILES = {
    "video.mp4": ("render", "--frames", 8, "--overwrite", "--out"),
    "mesh.ply": ("export", *MESH, "--overwrite"),
    "density.vdb": ("export", "--resolution", 24, "--overwrite"),
    "page.html": ("export", "--overwrite"),
    "figures.json": ("eval", "--json"),
}
"""File -> the command that writes it: its name, and flags up to the file's name."""


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_does_not_fit_leaves_the_old_one(trained, tmp_path, capsys, monkeypatch, name):
    sizes = {"still": (16, 12), "portrait": (8, 12)}
    monkeypatch.setattr("nerfmac.app.export.scene_page.STILL_SIZES", sizes)
    command, *flags = FILES[name]
    path = tmp_path / name
    path.write_text("old")
    with room_for(300):
        assert nerfmac(command, trained, "--device", "cpu", *flags, path) == 2
    line = told(capsys)
    assert str(path) in line or "the video" in line
    assert "cannot be written" in line
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("form", ["png", "exr"])
def test_frames_that_do_not_fit_end_a_video(trained, tmp_path, capsys, form):
    out = tmp_path / "frames"
    words = ("render", trained, "--frames", 3, "--size", "80x64", "--format", form)
    words += ("--device", "cpu", "--out", out)
    with room_for(600):  # the record fits
        assert nerfmac(*words) == 2
    assert f"{out / 'frame_00000'}.{form}" in told(capsys)
    assert {path.name for path in out.iterdir()} == {"series.json"}
    assert nerfmac(*words, "--resume") == 0


def test_a_run_that_does_not_fit_can_begin_again(scene, tmp_path, capsys):
    words = ("train", scene.path, *FLAGS, "--steps", 4, "--no-video", "--out", tmp_path / "run")
    with room_for(100_000):
        assert nerfmac(*words) == 2
    assert f"{tmp_path / 'run' / 'checkpoint.safetensors'} cannot be written" in told(capsys)
    assert nerfmac(*words) == 0


def test_a_training_keeps_its_last_checkpoint_that_fits(scene, trained, tmp_path, capsys):
    out = tmp_path / "run"
    Run.load(trained).save(out)
    before = (out / "checkpoint.safetensors").read_bytes()
    resumed = ("train", "--out", out, "--resume", "--device", "cpu", "--no-video")
    with room_for(len(before) - 100):
        assert nerfmac(*resumed, "--steps", 20) == 2
    assert f"{out / 'checkpoint.safetensors'} cannot be written" in told(capsys)
    assert (out / "checkpoint.safetensors").read_bytes() == before
    assert nerfmac(*resumed, "--steps", 20) == 0
    assert Run.load(out).state.step == 20


def test_a_line_of_the_scalars_that_is_cut_short_stops_nothing(scene, tmp_path, caplog):
    out = tmp_path / "run"
    train(scene, config=CONFIG, goal=Goal(steps=10), out=out, progress=False)
    file = out / NAME
    whole = read_scalars(out)
    with file.open("ab") as lines:
        lines.write(b'{"step": 10, "sec')
    assert read_scalars(out) == whole
    again = resume(out, Goal(steps=20), scene=scene, progress=False)
    steps = [values["step"] for values in read_scalars(out)]
    assert (steps[: len(whole)], steps[-1]) == ([values["step"] for values in whole], 20)
    assert again.state.step == 20


def test_images_that_do_not_fit_end_a_capture_that_then_goes_on(tmp_path, capsys):
    write_images(tmp_path / "photos", [f"{number}.png" for number in range(3)])
    words = ("capture", tmp_path / "photos", "--out", tmp_path / "scene")
    for _ in range(2):  # once repeated, the same
        with room_for(2000):
            assert nerfmac(*words) == 2
        assert "0.png cannot be written" in told(capsys)
    assert nerfmac(*words) == 2
    assert "no two of the 3 images" in told(capsys), "noise has no cameras"


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
    write_images(tmp_path / "photos", [f"{number}.png" for number in range(12)])
    out = tmp_path / "scene"
    words = ("capture", tmp_path / "photos", "--out", out)
    assert nerfmac(*words) == 2
    record = (out / capture.RECORD).read_text()
    capture.shutil.rmtree(out / capture.WORK)
    (out / ".lock").touch()
    for matching in ("auto", "exhaustive"):
        capsys.readouterr()
        assert nerfmac(*words, "--matching", matching) == 2
        assert "no two of the 12 images" in capsys.readouterr().err
    assert json.loads((out / capture.RECORD).read_text()) == {
        **json.loads(record),
        "matching": "exhaustive",
    }


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
