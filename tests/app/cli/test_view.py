"""`nerfmac view --lab` writes a notebook once and is replaced by JupyterLab with this notebook."""

import ast
import json
import os
from pathlib import Path
from typing import NamedTuple

import pytest

import nerfmac.app.cli.view as view_command
from nerfmac import Goal, Run, load_scene, train
from tests.app.cli.refusals import everything
from tests.scene_factory import CONFIG, nerfmac, write_scene

NAME = """Straße 'Süd' "\u2192"  {}"""
"""A folder's name with all that could break a line of Python."""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A scene and a run to make copies of."""
    place = tmp_path_factory.mktemp("made")
    scene = write_scene(place / NAME, train=3)
    train(load_scene(scene), config=CONFIG, goal=Goal(steps=2), out=place / "run")
    return place


@pytest.fixture
def run(made, tmp_path):
    Run.load(made / "run").save(tmp_path / "run")
    return tmp_path / "run"


class Ended(NamedTuple):
    """How the command ended; `started` are the arguments that JupyterLab got, if it was started."""

    code: int
    out: str
    err: str
    started: list[str] | None


@pytest.fixture
def view(monkeypatch, capsys):
    """Call the command in a folder; the JupyterLab that this process would become exits with 7."""
    started = []

    def become(_program, command):
        started.append(command[command.index("jupyterlab") + 1 :])
        raise SystemExit(7)

    monkeypatch.setattr(view_command.os, "execv", become)

    def call(folder, *arguments):
        started.clear()
        monkeypatch.chdir(folder)
        capsys.readouterr()
        code = nerfmac("view", "--lab", *arguments)
        return Ended(code, *capsys.readouterr(), started[0] if started else None)

    return call


def code(path):
    cells = json.loads(path.read_text())["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def shown(path):
    """Return the argument of the viewer in the first cell, unless the cell calls a function."""
    for node in ast.walk(ast.parse(code(path)[0])):
        if isinstance(node, ast.Call) and node.func.attr == "Viewer":
            return ast.literal_eval(node.args[0])
    raise AssertionError("the notebook makes no viewer")


def refused(ended, folder, before, *names):
    """Exit code 2, one line that has each of `names`, nothing written, JupyterLab not started."""
    assert (ended.code, ended.started, ended.out) == (2, None, "")
    (line,) = ended.err.splitlines()
    for name in names:
        assert str(name) in line, f"{name!r} is not in: {line}"
    assert everything(folder) == before


def test_a_runs_notebook_lies_in_the_run_and_jupyterlab_opens_it(view, run, tmp_path):
    ended = view(tmp_path, "run")
    notebook = run / "view.ipynb"
    assert ended.started[0] == str(notebook)
    assert "--no-browser" not in ended.started
    assert "--port=8123" in view(tmp_path, run, "--port", 8123).started
    assert ended.out == "run/view.ipynb\n"
    assert shown(notebook) == ".", "the run could not be moved"
    cells = json.loads(notebook.read_text())["cells"]
    folded = [cell["metadata"].get("jupyter", {}).get("source_hidden") for cell in cells]
    assert folded == [cell["cell_type"] == "code" or None for cell in cells]
    settings = Path(os.environ["JUPYTER_CONFIG_PATH"].split(os.pathsep)[0], "labconfig")
    news = json.loads((settings / "default_setting_overrides.json").read_text())
    assert news["@jupyterlab/apputils-extension:notification"]["fetchNews"] == "false"


def test_a_scenes_notebook_lies_in_the_working_folder_and_the_scene_is_as_it_was(
    view, made, tmp_path
):
    before = everything(made)
    ended = view(tmp_path, made / NAME)
    notebook = tmp_path / f"{NAME}-view.ipynb"
    assert ended.started[0] == str(notebook)
    assert Path(shown(notebook)) == made / NAME
    assert everything(made) == before


def test_the_first_cell_says_in_a_large_line_how_to_start_the_viewer(view, tmp_path):
    view(tmp_path)
    (notebook,) = tmp_path.iterdir()
    first, *others = json.loads(notebook.read_text())["cells"]
    (output,) = first["outputs"]
    assert output["data"] == {"text/html": "<h1>Press Shift+Enter to start the viewer</h1>"}
    assert not any(cell.get("outputs") for cell in others)


@pytest.mark.parametrize("what", ["run", "scene"])
def test_a_notebook_that_the_user_has_changed_is_kept(view, made, run, tmp_path, what):
    path = run if what == "run" else made / NAME
    view(tmp_path, path)
    notebook = run / "view.ipynb" if what == "run" else tmp_path / f"{NAME}-view.ipynb"
    values = json.loads(notebook.read_text())
    values["cells"] = values["cells"][:2]
    notebook.write_text(json.dumps(values))
    changed = notebook.read_bytes()
    assert view(tmp_path, path).code == 7
    assert notebook.read_bytes() == changed


def test_a_scenes_notebook_never_stands_for_another_scene_of_the_same_name(view, made, tmp_path):
    view(tmp_path, made / NAME)
    other = write_scene(tmp_path / "other" / NAME, train=3)
    before = everything(tmp_path)
    refused(
        view(tmp_path, other),
        tmp_path,
        before,
        f"{NAME}-view.ipynb already exists",
        tmp_path / "other",
    )


@pytest.mark.parametrize("what", ["run", "scene"])
def test_the_notebook_runs_from_top_to_bottom(view, made, run, tmp_path, what):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("anywidget")
    view(tmp_path, run if what == "run" else made / NAME)
    path = run / "view.ipynb" if what == "run" else tmp_path / f"{NAME}-view.ipynb"
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        for given, small in (
            ("seconds=4, fps=24, size=(480, 360)", "seconds=1, fps=12, size=(32, 24)"),
            (")\nviewer.train(seconds=60)", ', "tiny")\nviewer.train(steps=20)'),
        ):
            cell.source = cell.source.replace(given, small)
    nbclient.NotebookClient(
        notebook, timeout=300, resources={"metadata": {"path": str(path.parent)}}
    ).execute()
    saved = tmp_path / "run-continued" if what == "run" else tmp_path / "runs" / NAME
    assert Run.load(saved).state.step == (2 if what == "run" else 20)
    assert (path.parent / ("video.mp4" if what == "run" else f"{NAME}.mp4")).stat().st_size > 1000
