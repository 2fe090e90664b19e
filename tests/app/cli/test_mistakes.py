"""Common mistakes of new users are answered with one line that contains the correct command."""

import shutil

import pytest

import nerfmac as package
from nerfmac.app.cli import COMMANDS, synonyms
from nerfmac.app.cli.declared import declared, flags_of
from nerfmac.app.cli.options import Train
from nerfmac.app.cli.synonyms import known_command, known_flag, similar
from tests.app.cli.refusals import refused

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
