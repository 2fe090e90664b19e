"""Wrong words, flags, and values, and common mistakes, are refused with the right ones."""

import shutil

import pytest

import nerfmac as package
from nerfmac.app.cli import COMMANDS, GROUPS, synonyms
from nerfmac.app.cli.arguments import checked, parsed
from nerfmac.app.cli.declared import declared, flags_of
from nerfmac.app.cli.options import Train
from nerfmac.app.cli.synonyms import known_command, known_flag, similar
from nerfmac.backend.device import gpu
from nerfmac.common.checks import InputError
from nerfmac.config import Config, MarchConfig, RefineConfig
from nerfmac.version import version
from tests.app.cli.refusals import refused
from tests.scene_factory import nerfmac


@pytest.mark.skipif(gpu() is not None, reason="needs a machine without a GPU")
@pytest.mark.parametrize("device", ["cuda", "metal"])
def test_a_device_that_is_not_there(capsys, tmp_path, scene, device):
    names = [f"device is '{device}'", "finds only cpu"]
    out = tmp_path / "run"
    for command in (("train", scene, "--out", out), ("info",), ("eval", out), ("render", out)):
        refused(capsys, tmp_path, *command, "--device", device, names=names)


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


MISTAKES = {
    "scene/": "`nerfmac train scene/`",
    "run": "`nerfmac view run`",
    "trian scene": "did you mean train?",
    "process-data scene": "`nerfmac capture`",
    "gui": "`nerfmac view`",
    "mesh run": "`nerfmac export RUN mesh.ply`",
    "ns-train nerfacto --data scene": "`nerfmac train`",
    "train nerfacto --data scene": "`nerfmac train SCENE`",
    "view --load-config run/config.json": "`nerfmac view RUN|SCENE`",
    "render --load-config run/config.json": "`nerfmac render RUN`",
    "train scene --lr 0.01": "type --optimizer.rate: Learning rate",
    "train scene --iterations 1000": "type --steps: ",
    "train scene --gpu 0": "type --device auto: ",
    "train scene --resolution 400": "type --downscale: ",
    "render run --resolution 400": "type --size: ",
    "train scene --batch-size 4096": "type --march.max-samples: ",
    "train scene --output-dir out": "type --out: Run folder to write",
    "train scene --save_mesh mesh.ply": "`nerfmac export RUN mesh.ply`",
    "train scene --levels 8": "type --grid.levels",
    "train scene --verbose": "NERFMAC_LOG=debug before `nerfmac`",
    "train scene --frobnicate 1": "`nerfmac train --help-all` lists the options",
    "train scene --seconds 1m": "expected a number without a unit",
    "train scene --seconds -5": "at least 0.001",
    "train scene --steps 1k": "expected an integer without a unit",
    "train scene --preset huge": "one of: auto, tiny, small, base, big",
    "train scene --device gpu": "one of: auto, metal, cuda, cpu",
    "train scene --steps 0": "steps is 0; expected at least 1",
    "train scene --seconds nan": "seconds is nan",
    "train scene --steps 5 --seconds 5": "steps and seconds",
    "train scene --split 1": "split=1 holds out all",
    "train scene --split=": "--split is ''",
    "train scene --split some": "split is 'some', which is not a file",
    "train scene --extent 0": "extent is 0; expected a value above 0",
    "train scene --up -w": "up is '-w'",
    "train --preset": "--preset has no value",
    "train --seed -1": "seed is -1",
    "train --grid.levels 0": "grid.levels is 0",
    "render run --path tour.json": "tour.json cannot be read",
    "info --loud": "no option --loud",
    "info cpu": "unexpected argument 'cpu'",
    "train one two": "at most one argument: SCENE",
    "train --out --resume": "--out has no value",
    "train --resume=yes": "--resume does not accept a value, but got 'yes'",
    "train missing": "pass the folder of a scene or of photos, or a video",
    "train empty": "`nerfmac capture FOLDER`",
    "train scene.zip": "unpack it",
    "train run": "`nerfmac train --out run --resume`",
    "train scene --out run": "choose another folder",
    "train --resume": "--out FOLDER",
    "train scene --split 80%": "a fraction such as 0.1",
    "capture photo.png": "pass a video, or a folder that contains photos",
    "render scene": "`nerfmac train scene --out RUN`",
    "render run --size 1080p": "such as 800x600",
    "render run --path circle": "one of: orbit, spiral",
    "render run --out video.avi": ".mp4, .webm, .gif",
    "render run": "replace it with --overwrite",
    "export run": "`nerfmac export RUN FILE`",
    "export run mesh.stl": "one of mesh: .ply, .obj, .glb",
    "eval": "`nerfmac eval RUN`",
    "eval missing": "pass a folder that `nerfmac train` has written",
}
"""Train after `nerfmac`, and the correction in the answer."""


@pytest.fixture
def desk(scene, run, tmp_path, monkeypatch):
    """The working folder of a newcomer: a scene, a run, an empty folder, a photo."""
    shutil.move(scene, tmp_path / "scene")
    (run / "orbit.mp4").write_bytes(b"video")
    (tmp_path / "empty").mkdir()
    (tmp_path / "scene.zip").write_bytes(b"PK")
    image = package.builtin_scene_path() / "test/r_0.png"
    (tmp_path / "photo.png").write_bytes(image.read_bytes())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_mistake_is_answered_with_what_to_type(desk, capsys):
    for typed, answer in MISTAKES.items():
        refused(capsys, desk, *typed.split(), names=[answer])


@pytest.mark.parametrize("answer", synonyms.COMMANDS)
def test_each_command_that_a_synonym_stands_for_is_one(answer):
    assert answer.split()[0] in COMMANDS
    for word in synonyms.COMMANDS[answer].split():
        assert word not in COMMANDS
        assert f"`nerfmac {answer}`" in known_command(word, COMMANDS)


@pytest.mark.parametrize("answer", [meant for meant in synonyms.FLAGS if meant.startswith("--")])
def test_each_flag_that_a_synonym_stands_for_is_one(answer):
    flags = {argument.name: "Text." for argument in declared(Train)}
    flags |= {"--size": "Text.", "--path": "Text.", "--overwrite": "Text."}  # of render
    assert answer.split()[0] in flags
    for word in synonyms.FLAGS[answer].split():
        assert word not in flags_of(Train)
        assert known_flag("train", word, flags, "SCENE").startswith("type --")


def test_what_is_far_from_all_that_there_is_gets_no_guess():
    assert similar("--learning-rate", ["--refine.pose-rate", "--seed"], "none") == "none"
    assert similar("--gpu", ["--up"], "none") == "none"
    assert similar("--scene", ["--seed"], "none") == "none"
    assert similar("--stepz", ["--seed", "--steps"], "none") == "did you mean --steps?"
