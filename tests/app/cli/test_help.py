"""Help pages: short and whole, the same on every machine, with right examples, shown at once."""

import re
import shlex
import subprocess
import sys

import pytest

from nerfmac.app.cli import COMMANDS
from nerfmac.app.cli.arguments import built, declared, given_by, options_of
from nerfmac.app.cli.help import EXAMPLES
from nerfmac.app.cli.options import OPTIONS
from tests.scene_factory import nerfmac


def page(capsys, *words):
    assert nerfmac(*words) == 0
    told = capsys.readouterr()
    assert told.err == ""
    return told.out


def flags_of(command):
    return {option.name for option in options_of(OPTIONS[command])}


def shown_flags(text):
    """Return the flags that a page lists; a help text may begin a line with a flag, indented."""
    listed = [line for line in text.splitlines() if re.match("  --", line)]
    return re.findall(r"--[a-z0-9][\w.-]*", " ".join(line[2:].split("  ")[0] for line in listed))


@pytest.mark.parametrize("command", COMMANDS)
def test_the_whole_page_lists_every_flag_in_lines_of_80_columns(capsys, command):
    text = page(capsys, command, "--help-all")
    shown = set(shown_flags(text))
    off = {f"--no-{name.removeprefix('--')}" for name in flags_of(command)}
    assert flags_of(command) <= shown <= flags_of(command) | off
    assert max(map(len, text.splitlines())) <= 80
    for word in ("MISSING", "[default: None]", "[default: True]", "[default: False]"):
        assert word not in text
    for argument in declared(OPTIONS[command]):
        assert argument.text, argument.name
        assert " ".join(argument.text.split()) in " ".join(text.split())


@pytest.mark.parametrize("asked", ["-h", "--help-all"])
def test_a_page_does_not_depend_on_the_machine(capsys, monkeypatch, asked):
    before = page(capsys, "train", asked)
    monkeypatch.setattr("nerfmac.backend.device.gpu", lambda: "metal")
    monkeypatch.setenv("COLUMNS", "200")
    assert page(capsys, "train", "--preset", "tiny", "--device", "cpu", asked) == before


@pytest.mark.parametrize("command", COMMANDS)
def test_the_examples_are_understood(command, capsys):
    for words in EXAMPLES[command]:
        arguments = OPTIONS[command]
        given = given_by(command, arguments, shlex.split(words))
        assert isinstance(built(arguments, given), arguments)


HELP = """
import sys
from nerfmac.app.cli import COMMANDS, main

for words in (["--help"], ["process-data"], *([command, "--help"] for command in COMMANDS)):
    try:
        main(words)
    except SystemExit:
        print(words, *sys.modules, file=sys.stderr)
"""


def test_what_needs_no_computation_imports_no_library():
    """Help pages appear at once, and also if MLX is not installed."""
    told = subprocess.run([sys.executable, "-c", HELP], capture_output=True, text=True).stderr
    assert told.count("'--help'") == len(COMMANDS) + 1
    imported = {name.partition(".")[0] for name in told.split()}
    assert imported & {"nerfmac", "mlx", "numpy", "PIL", "tqdm"} == {"nerfmac"}
