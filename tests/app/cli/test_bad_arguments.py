"""Wrong words, flags, and values, and common mistakes, are refused with the right ones."""

import errno
import os
import shutil
from pathlib import Path

import pytest

import nerfmac as package
from nerfmac.app.cli import COMMANDS, GROUPS
from nerfmac.app.cli.arguments import SYNONYMS, built, given_by
from nerfmac.app.cli.options import Train
from nerfmac.app.cli.printing import printable
from nerfmac.backend.device import gpu
from nerfmac.config import Config, MarchConfig
from nerfmac.version import version
from tests.app.cli.refusals import refused
from tests.scene_factory import nerfmac, write_scene


@pytest.mark.skipif(gpu() is not None, reason="needs a machine without a GPU")
@pytest.mark.parametrize("device", ["cuda", "metal"])
def test_a_device_that_is_not_there(capsys, tmp_path, scene, device):
    names = [f"device is '{device}'", "finds only cpu"]
    out = tmp_path / "run"
    for command in (("train", scene, "--out", out), ("info",), ("eval", out), ("render", out)):
        refused(capsys, tmp_path, *command, "--device", device, names=names)


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        (["--refine.exposures", "--resume"], "--refine.exposures", True),
        (["--refine.exposures", "on"], "--refine.exposures", True),
        (["--refine.exposures=off"], "--refine.exposures", False),
        (["--refine.exposures", "auto"], "--refine.exposures", None),
        (["--march.near", "auto"], "--march.near", None),
        (["--march.near", "0.7"], "--march.near", 0.7),
        (["--no-video"], "--video", False),
        (["--no-refine.poses"], "--refine.poses", False),
        (["--seed", "-1"], "--seed", -1),
        (["--up", "-y"], "--up", (0.0, -1.0, 0.0)),
        (["--up", "-3,0,4"], "--up", (-0.6, 0.0, 0.8)),
        (["--steps", "1", "--steps", "2"], "--steps", 2),
        (["--out=~/run"], "--out", Path("/home/me/run")),  # shells do not expand this one
    ],
)
def test_an_option_has_the_value_that_was_typed(words, name, value, monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    for order in (["scene", *words], [*words, "--device", "cpu", "scene"]):
        given = given_by("train", Train, order)
        assert given[name] == value
        assert given["SCENE"] == Path("scene")


def test_settings_keep_the_values_that_were_not_typed():
    default = Train(settings=Config(march=MarchConfig(near=0.5, steps=512)))
    given = given_by("train", Train, ["--march.near", "auto"])
    assert built(Train, given, default).settings.march == MarchConfig(near=None, steps=512)
    assert built(Train, {}, default) == default


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


def test_a_file_name_after_two_hyphens_may_begin_with_a_hyphen(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert nerfmac("inspect", "--", "-scene") == 2
    assert "-scene does not exist" in capsys.readouterr().err
    write_scene(tmp_path / "-scene")
    assert nerfmac("inspect", "--no-masks", "--", "-scene") == 0
    assert nerfmac("inspect", "--", "-scene", "--no-masks") == 2
    assert "unexpected argument '--no-masks'" in capsys.readouterr().err


MISTAKES = {
    "trian scene": "did you mean train?",
    "mesh run": "expected one of: data, capture",
    "train scene --step 5": "did you mean --steps?",
    "train -x": "nerfmac train has no option -x",
    "train scene -o out": "nerfmac train has no option -o",
    "train scene --levels 8": "type --grid.levels",
    "train scene --frobnicate 1": "`nerfmac train --help-all` lists the options",
    "train scene --seconds 1m": "expected a number without a unit",
    "train scene --seconds -5": "at least 0.001",
    "train scene --steps 1k": "expected an integer without a unit",
    "train scene --grid.finest none": "expected an integer without a unit, or auto",
    "train scene --march.near 1m": "expected a number without a unit, or auto",
    "train scene --march.cone auto": "--march.cone is 'auto'; expected a number",
    "train scene --preset huge": "one of: auto, tiny, small, base, big",
    "train scene --device gpu": "one of: auto, metal, cuda, cpu",
    "train scene --steps 0": "steps is 0; expected at least 1",
    "train scene --seconds nan": "seconds is nan",
    "train scene --steps 5 --seconds 5": "steps and seconds",
    "train scene --split 1": "split=1 holds out all",
    "train scene --split=": "--split is ''; expected a value",
    "train scene --split some": "split is 'some', which is not a file",
    "train scene --extent 0": "extent is 0; expected a value above 0",
    "train scene --up -w": "up is '-w'",
    "train --preset": "--preset: expected one argument",
    "train --seed -1": "seed is -1",
    "train --grid.levels 0": "grid.levels is 0",
    "render run --path tour.json": "tour.json cannot be read",
    "info --loud": "no option --loud",
    "info cpu": "unexpected argument 'cpu'",
    "train one two": "accepts only SCENE",
    "train --out --resume": "--out: expected one argument",
    "train --resume=yes": "ignored explicit argument 'yes'",
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


@pytest.mark.parametrize("command", ["train", "inspect", "capture", "render", "eval", "view"])
@pytest.mark.parametrize("name", ["long" * 99, "balls\udcff"])
def test_a_path_that_the_system_refuses_is_told(capsys, tmp_path, monkeypatch, command, name):
    """APFS refuses a name that is not UTF-8."""
    stat = os.stat

    def apfs_stat(path, **options):
        if "\udcff" in str(path):
            raise OSError(errno.EILSEQ, "Illegal byte sequence", str(path))
        return stat(path, **options)

    monkeypatch.setattr(os, "stat", apfs_stat)
    path = tmp_path / name
    refused(capsys, tmp_path, command, path, names=[f"cannot use {printable(str(path))}"])


@pytest.mark.parametrize("name", SYNONYMS)
def test_an_option_of_another_program_is_answered_with_ours(capsys, name):
    assert nerfmac("train", "scene", name, "3") == 2
    told = capsys.readouterr().err
    assert f"has no option {name}; type {SYNONYMS[name]}\n" in told
    nerfmac("info", name, "3")  # has none of these options but --device
    assert ("type" in capsys.readouterr().err) == (SYNONYMS[name] == "--device")
