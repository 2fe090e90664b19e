"""A file that cannot be written does not take the result of a command with it."""

import json

import pytest

from nerfmac.app.run import Run, outputs
from nerfmac.common.checks import InputError
from tests.scene_factory import FLAGS, nerfmac


def refuse(*_, **__):
    raise InputError("preview.png cannot be written: Read-only file system")


def test_a_preview_that_cannot_be_written_leaves_the_metrics(
    scene, tmp_path, monkeypatch, capsys, caplog
):
    monkeypatch.setattr(outputs, "save_preview", refuse)
    out = tmp_path / "run"
    assert nerfmac("train", scene, *FLAGS, "--steps", 2, "--no-video", "--out", out) == 0
    assert "PSNR" in capsys.readouterr().out
    assert "preview.png cannot be written" in caplog.text
    assert json.loads((out / "metrics.json").read_text())["steps"] == 2


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
