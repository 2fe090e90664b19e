"""A file that cannot be written does not take the result of a command with it."""

import json
import os

import pytest

from nerfmac.app.run import Run, outputs
from nerfmac.common.checks import InputError
from tests.app.scenes.scene_files import write_transforms
from tests.scene_factory import FLAGS, nerfmac


def refuse(*_, **__):
    raise InputError("preview.png cannot be written: Read-only file system")


def test_the_report_of_a_scene_is_printed_before_its_drawing_fails(tmp_path, capsys):
    path = write_transforms(tmp_path / "yard", 9)
    assert nerfmac("inspect", path, "--out", tmp_path / "gone/a.png") == 2
    told = capsys.readouterr()
    assert "views      7 train, 2 test" in told.out
    assert "a.png cannot be written" in told.err


def test_a_preview_that_cannot_be_written_leaves_the_metrics(
    scene, tmp_path, monkeypatch, capsys, caplog
):
    monkeypatch.setattr(outputs, "save_preview", refuse)
    out = tmp_path / "run"
    assert nerfmac("train", scene, *FLAGS, "--steps", 2, "--no-video", "--out", out) == 0
    assert "PSNR" in capsys.readouterr().out
    assert "preview.png cannot be written" in caplog.text
    assert json.loads((out / "metrics.json").read_text())["steps"] == 2


@pytest.fixture
def read_only(monkeypatch):
    """Make all folders read-only for `os.access`, because root may write everywhere."""
    monkeypatch.setattr(os, "access", lambda _path, mode: not mode & os.W_OK)


def test_a_read_only_run_is_told_where_to_write(run, capsys, read_only, monkeypatch):
    assert nerfmac("render", run, "--frames", 2) == 2
    told = capsys.readouterr().err
    assert f"there is no permission to write in {run}; choose another place with --out" in told
    assert "takes about" not in told
    pytest.importorskip("jupyterlab")
    monkeypatch.setattr("nerfmac.app.cli.view.write_json", refuse)
    assert nerfmac("view", "--lab", run) == 2
    told = capsys.readouterr().err
    assert "copy the run to a folder where you may write, or create a notebook there" in told
    assert f"`nerfmac.Viewer('{run}')`" in told


@pytest.mark.parametrize("limit", [("--seconds", 1e-3), ("--steps", 2), ("--steps", 1)])
def test_resuming_a_run_that_is_complete_says_that_nothing_is_trained(
    run, tmp_path, caplog, capsys, monkeypatch, limit
):
    before = (run / "metrics.json").read_bytes(), (run / "checkpoint.safetensors").read_bytes()
    steps = Run.load(run).state.step
    monkeypatch.setattr(Run, "evaluate", lambda *_, **__: pytest.fail("evaluated again"))
    assert nerfmac("train", "--out", run, "--resume", *limit, "--no-video") == 0
    (line,) = [line for line in caplog.messages if "nothing to train" in line]
    assert f"already been trained for {steps} steps" in line
    assert limit[0] in line
    assert "2 steps" in capsys.readouterr().out
    assert before == (
        (run / "metrics.json").read_bytes(),
        (run / "checkpoint.safetensors").read_bytes(),
    )


def test_a_complete_run_without_metrics_is_evaluated(run, caplog):
    (run / "metrics.json").unlink()
    assert nerfmac("train", "--out", run, "--resume", "--steps", 2, "--no-video") == 0
    assert "nothing to train" in caplog.text
    assert json.loads((run / "metrics.json").read_text())["steps"] == 2
