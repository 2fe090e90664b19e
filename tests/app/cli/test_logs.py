"""The log of a command, its standard output, and its standard error."""

import json
import os
import subprocess
import sys

import pytest

from nerfmac.app.run import read_scalars, resume
from nerfmac.training.goal import Goal
from tests.scene_factory import FLAGS, nerfmac, write_scene

TINY = (*FLAGS, "--steps", 20, "--no-video")


@pytest.fixture(scope="module")
def trained(tmp_path_factory, balls):
    """A run trained with everything written, and the file of its log."""
    place = tmp_path_factory.mktemp("logs")
    flags = ("--out", place / "run", "--log-file", place / "all.log")
    assert nerfmac("train", balls, *TINY, *flags) == 0
    return place / "run", (place / "all.log").read_text()


def test_a_resumed_run_drops_lines_after_its_checkpoint(trained, tmp_path):
    last = read_scalars(trained[0])[-1]
    assert last["step"] == 20
    assert {"seconds", "rays", "loss", "psnr", "rays_per_second"} <= set(last)
    run = tmp_path / "run"
    run.mkdir()
    for name in ("config.json", "scene.json", "checkpoint.safetensors"):
        (run / name).write_bytes((trained[0] / name).read_bytes())
    (run / "scalars.jsonl").write_text('{"step": 4}\n{"step": 999}\n')
    assert nerfmac("train", "--resume", "--out", run, "--device", "cpu", "--steps", 24) == 0
    steps = [line["step"] for line in read_scalars(run)]
    assert steps[0] == 4
    assert steps[-1] == 24
    assert 999 not in steps


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_scalars_on_a_full_disk_are_one_message_and_training_goes_on(run, caplog, monkeypatch):
    from nerfmac.app.run import Run, reporting

    written = reporting.Scalars(run, step=2)
    written._file.close()
    written._file = open("/dev/full", "ab", buffering=0)  # noqa: SIM115 - closed by `close`
    monkeypatch.setattr(reporting, "SECONDS", 0.0)
    loaded = Run.load(run)
    resume(loaded, Goal(steps=8), progress=False, on_report=written.add)
    written.close()
    assert loaded.state.step == 8
    (said,) = [each.getMessage() for each in caplog.records if "cannot write" in each.msg]
    assert "No space left on device; continuing without it" in said


ESCAPE = "\x1b]0;owned\x07\x1b[31m"
"""It gives a terminal another title and red letters."""
QUOTED = r"\x1b]0;owned\x07\x1b[31m"


@pytest.fixture
def hostile(tmp_path):
    """A scene with escape sequences in the names of its folder and first image, and with a byte
    that is not UTF-8 in the name of its folder, unless the file system refuses such a name."""
    folder = tmp_path / f"balls{ESCAPE}\udcff"
    try:
        folder.mkdir()
    except OSError:
        folder = tmp_path / f"balls{ESCAPE}"
    scene = write_scene(folder, train=3)
    file = scene / "transforms_train.json"
    values = json.loads(file.read_text())
    frame = values["frames"][0]
    old, frame["file_path"] = frame["file_path"], f"./train/{ESCAPE}"
    (scene / f"{old}.png").rename(scene / "train" / f"{ESCAPE}.png")
    file.write_text(json.dumps(values))
    return scene


def test_names_from_files_cannot_steer_the_terminal(hostile, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert nerfmac("inspect", hostile) == 0
    told = capsys.readouterr()
    assert hostile.name.replace(ESCAPE, QUOTED).replace("\udcff", r"\udcff") in told.out
    image = hostile / "train" / f"{ESCAPE}.png"
    image.write_bytes(b"broken")
    assert nerfmac("inspect", hostile) == 2
    failed = capsys.readouterr()
    assert f"{QUOTED}.png" in failed.err
    assert not any(letter in words for words in (*told, *failed) for letter in "\x1b\x07\x9b")


def test_a_reader_who_leaves_early_sees_no_traceback():
    # yes(1) and head(1) in one: one line is read from far more output than fits in a pipe.
    command = "from nerfmac.app.cli import info, main; info._operation = lambda name: 'x' * 2**20; "
    process = subprocess.Popen(
        [sys.executable, "-c", command + "main(['info', '--device', 'cpu'])"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout.readline().startswith("nerfmac")
        process.stdout.close()
        complaint = process.stderr.read()
    assert "Traceback" not in complaint
    assert process.returncode == 0
