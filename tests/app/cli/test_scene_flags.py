"""Scene flags apply to commands that read a scene; other commands reject them."""

import ast
import json
import sys

import pytest

import nerfmac
from nerfmac.common.checks import InputError
from tests.scene_factory import HEIGHT, WIDTH
from tests.scene_factory import nerfmac as command

FLAGS = (*("--split", "none", "--up", "-y", "--extent", 2.5, "--downscale", 2, "--max-images", 2),)
OPTIONS = {
    **{"split": "none", "up": (0.0, -1.0, 0.0), "extent": 2.5, "downscale": 2, "max_images": 2},
    "masks": False,
}


@pytest.mark.parametrize("words", [("tune",), ("profile",), ("bench", "--scene")])
def test_the_scene_is_read_as_the_flags_say(scene, monkeypatch, capsys, words):
    asked = []

    def read(path, **options):
        asked.append((path, options))
        raise InputError("enough")

    monkeypatch.setattr("nerfmac.app.cli.machine.load_scene", read)
    assert command(*words, scene, "--device", "cpu", *FLAGS, "--no-masks") == 2
    assert capsys.readouterr().err == "nerfmac: enough\n"
    assert asked == [(scene, OPTIONS)]


@pytest.mark.parametrize("of", ["a scene", "the built-in scene"])
def test_the_viewers_notebook_reads_the_scene_as_the_flags_say(scene, tmp_path, monkeypatch, of):
    monkeypatch.setattr("nerfmac.app.cli.view.os.execv", lambda *_: sys.exit(7))
    monkeypatch.chdir(tmp_path)
    command("view", *([scene] if of == "a scene" else []), *FLAGS, "--no-masks")
    (notebook,) = tmp_path.glob("*-view.ipynb")
    cells = json.loads(notebook.read_text())["cells"]
    calls = [
        node
        for node in ast.walk(ast.parse("".join(cells[0]["source"])))
        if isinstance(node, ast.Call) and node.func.attr == "load_scene"
    ]
    read = eval(ast.unparse(calls[0]), {"nerfmac": nerfmac})
    assert vars(read.options) == OPTIONS
    assert read.name in notebook.name
    if of == "a scene":
        assert read.cameras("train")[1].lens.width == WIDTH // 2
        assert read.cameras("train")[1].lens.height == HEIGHT // 2
