"""Words that are no command, no flag or no value are refused, and the right ones named."""

import pytest

from nerfmac.app.cli import COMMANDS, GROUPS
from nerfmac.app.cli.arguments import checked, parsed
from nerfmac.app.cli.options import Train
from nerfmac.backend.device import gpu
from nerfmac.common.checks import InputError
from nerfmac.config import Config, MarchConfig, RefineConfig
from nerfmac.version import version
from tests.app.cli.refusals import refused, train_refused
from tests.scene_factory import nerfmac


@pytest.mark.skipif(gpu() is not None, reason="needs a machine without a GPU")
@pytest.mark.parametrize("device", ["cuda", "metal"])
def test_a_device_that_is_not_there(capsys, tmp_path, scene, device):
    names = [f"device is '{device}'", "finds only cpu"]
    out = tmp_path / "run"
    for command in (("train", scene, "--out", out), ("info",), ("eval", out), ("render", out)):
        refused(capsys, tmp_path, *command, "--device", device, names=names)


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        (("--steps", 0), ["steps is 0", "at least 1"]),
        (("--seconds", "nan"), ["seconds is nan"]),
        (("--steps", 5, "--seconds", 5), ["steps and seconds"]),
        (("--split", 1), ["split=1 holds out all"]),
        (("--split", ""), ["--split is ''", "expected a value"]),
        (("--split", "some"), ["split is 'some', which is not a file"]),
        (("--extent", 0), ["extent is 0", "a value above 0"]),
        (("--up", "-w"), ["up is '-w'", "x, y, z"]),
    ],
)
def test_an_impossible_number(capsys, tmp_path, scene, flags, names):
    train_refused(capsys, tmp_path, scene, *flags, names=names)


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (("train", "--preset"), ["--preset"]),
        (("train", "--seed", -1), ["seed is -1"]),
        (("train", "--grid.levels", 0), ["grid.levels is 0", "2 and 32"]),
        (("render", "run", "--path", "tour.json"), ["tour.json cannot be read"]),
        (("info", "--loud"), ["no option --loud", "`nerfmac info --help-all`"]),
        (("info", "cpu"), ["unexpected argument 'cpu'", "options only"]),
        (("train", "one", "two"), ["unexpected argument 'two'", "at most one argument: SCENE"]),
        (("train", "--out", "--resume"), ["--out has no value"]),
        (("train", "--resume=yes"), ["--resume does not accept a value, but got 'yes'"]),
    ],
)
def test_an_argument_that_does_not_exist(capsys, tmp_path, monkeypatch, arguments, names):
    monkeypatch.chdir(tmp_path)
    refused(capsys, tmp_path, *arguments, names=names)


@pytest.mark.parametrize(
    ("given", "word", "value"),
    [
        (["--refine.exposures"], "on", True),
        (["--refine.exposures", "on"], "on", True),
        (["--refine.exposures=off"], "off", False),
        (["--refine.exposures", "auto"], "auto", None),
    ],
)
def test_a_setting_that_is_on_off_or_left_open_takes_a_word(given, word, value):
    words = checked("train", Train, [*given, "--refine.poses", "scene"])
    assert words == [f"--refine.exposures={word}", "--refine.poses", "scene"]
    assert parsed(RefineConfig, [f"--exposures={word}"]) == RefineConfig(exposures=value)


@pytest.mark.parametrize(("word", "value"), [("auto", None), ("0", 0.0), ("0.7", 0.7)])
def test_a_setting_that_is_a_number_or_left_open_takes_a_number_or_auto(word, value):
    words = checked("train", Train, ["--march.near", word, "scene"])
    assert words == [f"--march.near={word}", "scene"]
    before = Config(march=MarchConfig(near=0.5))
    default = Train(**vars(before))
    assert parsed(Train, words, default).march.near == value


@pytest.mark.parametrize(
    ("flag", "expected"),
    [
        ("--grid.finest", "an integer without a unit, or auto"),
        ("--march.near", "a number without a unit, or auto"),
    ],
)
def test_a_number_that_may_be_automatic_refuses_other_words(flag, expected):
    for word in ("none", "Auto", "1m"):
        with pytest.raises(InputError, match=f"{flag} is '{word}'; expected {expected}"):
            checked("train", Train, [flag, word, "scene"])
    with pytest.raises(InputError, match=r"--march\.cone is 'auto'; expected a number"):
        checked("train", Train, ["--march.cone", "auto", "scene"])


def test_the_home_folder_in_a_flags_value_is_found_where_the_shell_leaves_it(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    words = checked("train", Train, ["a", "--out=~/run", "--split", "~/names", "--up", "z"])
    assert words == ["--out=/home/me/run", "--split=~/names", "--up=z", "a"]


@pytest.mark.parametrize("words", [(), ("--help",), ("-h",), ("help",), ("--help-all",)])
def test_without_a_command_all_are_shown_in_groups_with_an_example(capsys, words):
    assert nerfmac(*words) == (0 if words else 2)
    told = capsys.readouterr().out
    lines = told.splitlines()
    assert [line.split()[0] for line in lines if line.startswith("  ")][: len(COMMANDS)] == [
        *COMMANDS
    ]
    assert [line for line in lines if line in GROUPS] == [*GROUPS]
    assert len(GROUPS) == 3
    assert "\n  nerfmac train video.mp4" in told
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_the_version_is_told(capsys, flag):
    assert nerfmac(flag) == 0
    assert capsys.readouterr().out == f"nerfmac {version()}\n"
