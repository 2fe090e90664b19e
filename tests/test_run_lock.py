"""One training at a time may write to a run's folder; who reads the run is not kept out."""

import errno
import os

import pytest

import nerfmac
from nerfmac.app.run import Run, train
from nerfmac.common.checks import InputError
from tests.app.cli.refusals import refused
from tests.killed import held
from tests.scene_factory import CONFIG
from tests.scene_factory import nerfmac as command_line

pytestmark = pytest.mark.usefixtures("on_the_cpu")

SETTINGS = {"device": "cpu", "progress": False}


@pytest.fixture
def folder(scene, tmp_path):
    train(scene, steps=2, config=CONFIG, out=tmp_path / "run", **SETTINGS)
    return tmp_path / "run"


@pytest.fixture
def holder(folder):
    with held(folder) as process:
        yield process


def test_a_second_training_in_another_process_writes_nothing(capsys, folder, holder):
    words = ("train", "--out", folder, "--resume", "--steps", 4)
    refused(capsys, folder.parent, *words, names=[folder, f"process {holder.pid}"])


def test_a_killed_training_leaves_no_lock(folder, holder, scene):
    holder.kill()
    holder.wait()
    assert train(scene, steps=4, out=folder, resume=True, **SETTINGS).state.step == 4
    assert not (folder / ".lock").exists()


def test_reading_commands_are_not_kept_out(folder, holder, scene, tmp_path):
    assert Run.load(folder).state.step == 2
    assert command_line("eval", folder, "--scene", scene.path, "--device", "cpu") == 0
    path = tmp_path / "frames"
    assert command_line("render", folder, "--frames", 1, "--out", path, "--device", "cpu") == 0


def test_a_run_in_training_keeps_a_second_one_out_until_it_stops(folder, scene):
    first = Run.resume(folder, scene)
    reports = first.fit(nerfmac.Goal(steps=50))
    next(reports)
    with pytest.raises(InputError, match=str(folder)):
        train(scene, steps=4, out=folder, resume=True, **SETTINGS)
    reports.close()
    stopped = first.state.step
    second = train(scene, steps=stopped + 1, out=folder, resume=True, **SETTINGS)
    assert second.state.step == stopped + 1
    with pytest.raises(InputError, match=str(folder)):  # it has not seen the second one's steps
        first.train(steps=stopped + 9, progress=False)
    second.train(steps=stopped + 2, progress=False)
    assert Run.load(folder).state.step == stopped + 2


def test_of_two_runs_begun_at_once_the_second_is_refused(folder, holder, scene, monkeypatch):
    monkeypatch.setattr(
        "nerfmac.app.run.folder.check_unused", lambda _: None
    )  # as before the first one wrote
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    for is_over in (False, True):
        if is_over:
            holder.communicate()
            del before[folder / ".lock"]
        with pytest.raises(InputError, match=str(folder)):
            Run.begin(scene, CONFIG, out=folder, progress=False)
        assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_a_file_system_without_locks_is_trained_on(scene, tmp_path, monkeypatch, caplog):
    def no_lock(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", no_lock)
    run = train(scene, steps=2, config=CONFIG, out=tmp_path / "run", **SETTINGS)
    assert Run.load(tmp_path / "run").state.step == run.state.step == 2
    assert str(tmp_path / "run") in caplog.text
    assert not (tmp_path / "run" / ".lock").exists()
