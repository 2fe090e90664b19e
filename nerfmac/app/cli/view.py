"""`nerfmac view`: open a run or a scene in the viewer, in a notebook in JupyterLab.

The notebook is written once and never changed again, since it is the user's. A run's notebook is in
the run's folder, a scene's in the working folder: nothing is written to scenes. JupyterLab opens
the notebook with the viewer in it: its server runs the first code cell, but only as nerfmac wrote
it, since a notebook in a run's folder may be from someone else.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

from nerfmac.app.capture import captured
from nerfmac.app.cli.arguments import parsed
from nerfmac.app.cli.declared import POSITIONAL, Shown
from nerfmac.app.cli.scene_flags import SceneFlags
from nerfmac.app.run import is_run, read_record
from nerfmac.app.scenes import builtin_scene_path, holds_scene, load_scene
from nerfmac.app.snapshots import is_snapshot, read_container
from nerfmac.app.viewer import INSTALL
from nerfmac.common import checks
from nerfmac.common.checks import InputError
from nerfmac.common.files import read_json, write_json

NEEDED = ("jupyterlab", "anywidget")
"""Packages of the extra `notebook` that the command needs."""

ALLOW_ROOT = "--allow-root"
"""Argument without which JupyterLab refuses to start as root, such as in a container."""

SETTINGS = str(files("nerfmac") / "app" / "cli" / "jupyter")
"""Folder of settings that JupyterLab reads before the user's own."""

CONTENTS = "nerfmac.app.cli.opened_notebook.OpenedNotebook"
"""Class of the server's files that runs the first code cell."""

HELP = (
    "In the image: drag to turn, Shift and drag to pan, scroll to come nearer, W A S D to walk, "
    "double click to look at a point."
)
BUILTIN = "nerfmac.builtin_scene_path()"
VIDEO = """from IPython.display import Video

video = viewer.render_video({}, seconds=4, fps=24, size=(480, 360))
Video(str(video), embed=True)"""


@dataclass(frozen=True)
class Arguments(SceneFlags):
    """Open JupyterLab with a notebook that shows and trains a run or a scene.

    Arguments after -- go to JupyterLab.
    """

    path: Annotated[Path | None, POSITIONAL, Shown("[RUN|SCENE]")] = None
    """Folder of a run or of a scene; a snapshot of instant-ngp; or a video or a folder of
    photos, whose cameras are then found first. By default the built-in scene."""
    browser: bool = True
    """Open a browser. --no-browser: only print the address to open."""
    port: Annotated[int | None, Shown("INT")] = None
    """Port of JupyterLab; by default the first free one from 8888."""


def main(argv: list[str], passed: Sequence[str] = ()) -> int:
    """Write the notebook unless it exists, and replace this process by JupyterLab.

    JupyterLab gets the arguments `passed`, those after `--`.
    """
    arguments = parsed(Arguments, argv)
    if arguments.port is not None:
        checks.number("--port", arguments.port, low=1, high=65535)
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        names = " and ".join(missing)
        raise InputError(f"{names} not installed; the viewer needs the extra notebook: {INSTALL}")
    path, given = arguments.path and arguments.path.expanduser(), arguments.given()
    if path is not None and (is_run(path) or is_snapshot(path)):
        arguments.refuse(f"none with {path}, which is trained already")
    file, is_unchanged = _notebook_for(path, given)
    print(file, flush=True)
    # -P: Python must not import a jupyterlab.py from the working folder.
    command = [sys.executable, "-P", "-m", "jupyterlab", str(file.resolve())]
    # The address that JupyterLab prints leads to the notebook alone, without the list of files.
    command += [f"--LabApp.default_url=/doc/tree/{quote(file.name)}"]
    # JupyterLab would ask PyPI for a newer version of itself.
    command += ["--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"]
    if is_unchanged:
        command += [f"--ServerApp.contents_manager_class={CONTENTS}"]
        command += [f"--OpenedNotebook.notebook={file.name}"]
    command += [] if arguments.browser else ["--no-browser"]
    command += [f"--port={arguments.port}"] if arguments.port is not None else []
    command += [ALLOW_ROOT] if _is_root() and ALLOW_ROOT not in passed else []
    command += passed
    # JupyterLab would ask whether to show its news, over the notebook's toolbar.
    paths = [SETTINGS, os.environ.get("JUPYTER_CONFIG_PATH", "")]
    os.environ["JUPYTER_CONFIG_PATH"] = os.pathsep.join(path for path in paths if path)
    # JupyterLab replaces this process, so it gets our signals, and its exit code is ours.
    os.execv(command[0], command)


def _is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def _notebook_for(path: Path | None, options: dict[str, Any]) -> tuple[Path, bool]:
    """The notebook of a run, a scene, or the built-in scene (None); written unless it exists.

    `options`: arguments of `load_scene` for a scene. Also returned: whether the notebook's first
    code cell is as nerfmac writes it.
    """
    if path is not None and is_run(path):
        read_record(path)
        file, shown, name = path / "view.ipynb", '"."', path.resolve().name
        cells = view_cells(name, shown, f"../{name}-continued", "video.mp4", is_trained=True)
    elif path is not None and is_snapshot(path):
        read_container(path)
        file, name = path.with_name(f"{path.stem}-view.ipynb"), path.stem
        shown = json.dumps(path.name, ensure_ascii=False)
        cells = view_cells(name, shown, None, f"{name}.mp4", is_trained=True)
    else:
        name, shown = _scene(path, options)
        file = Path(f"{name}-view.ipynb")
        cells = view_cells(name, shown, f"runs/{name}", f"{name}.mp4", is_trained=False)
    if file.exists():
        values = _read_shown(file, shown)
        return file, _first_code(values) == _first_code(notebook(cells, shows=shown))
    write_json(file, notebook(cells, shows=shown))
    return file, True


def _scene(path: Path | None, options: dict[str, Any]) -> tuple[str, str]:
    """The name of a scene, and Python code for its path or, with `options`, for loading it."""
    folder = captured(path) if path else builtin_scene_path()
    code = json.dumps(str(folder.resolve()), ensure_ascii=False) if path else BUILTIN
    keywords = "".join(f", {name}={value!r}" for name, value in options.items())
    try:
        name = load_scene(folder, **options).name
    except InputError as error:
        problem = f"{path} is neither a run, with its config.json, nor a scene: {error}"
        raise error if holds_scene(folder) else InputError(problem) from error
    return name, f"nerfmac.load_scene({code}{keywords})" if keywords else code


def _first_code(values: Any) -> str | None:
    """Source of the first code cell; None without one."""
    try:
        codes = [cell["source"] for cell in values["cells"] if cell["cell_type"] == "code"]
        return "".join(codes[0])
    except (IndexError, KeyError, TypeError):
        return None


def _read_shown(file: Path, shown: str) -> Any:
    """Read the notebook `file`. Raises `InputError` unless it was written to show `shown`."""
    values = read_json(file)
    try:
        is_ours = values["metadata"]["nerfmac"]["shows"] == shown
    except (KeyError, TypeError):
        is_ours = False
    if not is_ours:
        raise InputError(
            f"{file} exists already and was not made to show {shown}; rename it, or call "
            "nerfmac view in another folder"
        )
    return values


def view_cells(
    name: str, shown: str, saved: str | None, video: str, *, is_trained: bool
) -> list[tuple[str, str]]:
    """(kind, text) of the notebook's cells: show `shown`, save to `saved`, render `video`.

    `shown`: Python code of `Viewer`'s argument. `saved`: a folder; None for no such cell.
    """
    save = [
        ("markdown", "What has been trained, as a run that `nerfmac render` and others read:"),
        ("code", f"viewer.wait()  # until training stops\nviewer.save({json.dumps(saved)})"),
    ]
    train = "" if is_trained else "viewer.train(seconds=60)  # the page's Start does the same\n"
    return [
        ("code", f"import nerfmac\n\nviewer = nerfmac.Viewer({shown})\n{train}viewer"),
        ("markdown", f"# {name}\n\n{HELP} Shift+Enter runs a cell."),
        *(save if saved else ()),
        ("markdown", "A video along the keyframes or, with fewer than two, around the scene:"),
        ("code", VIDEO.format(json.dumps(video))),
    ]


def notebook(cells: Sequence[tuple[str, str]], *, shows: str) -> dict[str, Any]:
    """A notebook of `cells`, (kind, text) pairs, as JSON values."""
    code: dict[str, Any] = {"execution_count": None, "outputs": []}
    return {
        "cells": [
            {
                "cell_type": kind,
                "id": f"cell-{index}",
                # The code is folded: the scene is what the notebook opens on.
                "metadata": {"jupyter": {"source_hidden": True}} if kind == "code" else {},
                "source": text.splitlines(keepends=True),
                **(code if kind == "code" else {}),
            }
            for index, (kind, text) in enumerate(cells)
        ],
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "nerfmac": {"shows": shows},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
