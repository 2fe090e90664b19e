"""Standard output and standard error of the command line."""

import json
import logging
import os
import subprocess
import sys

import pytest

from tests.scene_factory import nerfmac, write_scene

ESCAPE = "\x1b]0;owned\x07\x1b[31m"
"""It gives a terminal another title and red letters."""
QUOTED = r"\x1b]0;owned\x07\x1b[31m"


@pytest.fixture
def hostile(tmp_path):
    """A scene with escape sequences in the names of its folder and first image."""
    scene = write_scene(tmp_path / f"balls{ESCAPE}\udcff", train=3)
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
    assert f"balls{QUOTED}\\udcff" in told.out
    image = hostile / "train" / f"{ESCAPE}.png"
    image.write_bytes(b"broken")
    assert nerfmac("inspect", hostile) == 2
    failed = capsys.readouterr()
    assert f"{QUOTED}.png" in failed.err
    assert not any(letter in words for words in (*told, *failed) for letter in "\x1b\x07\x9b")


def test_log_lines_quote_names_too(hostile, tmp_path, capsys, monkeypatch):
    def say(_):
        logging.getLogger("nerfmac").warning("%s is odd", hostile.name)
        return 0

    monkeypatch.setattr("nerfmac.app.cli.machine.info", say)
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # remove the handlers of pytest
    assert nerfmac("info", "--log-file", tmp_path / "log") == 0
    for words in (capsys.readouterr().err, (tmp_path / "log").read_text()):
        assert f"balls{QUOTED}" in words
        assert "\x1b" not in words


def test_a_reader_who_leaves_early_sees_no_traceback():
    # yes(1) and head(1) in one: one line is read from far more output than fits in a pipe.
    command = (
        "from nerfmac.app.cli import machine, main; machine._operation = lambda name: 'x' * 2**20; "
    )
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


@pytest.mark.parametrize("words", [[], ["train", "--help-all"], ["info"]])
def test_no_command_minds_a_reader_who_is_gone(words):
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "nerfmac", *words]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert done.stderr == ""
    assert done.returncode == (0 if words else 2)
