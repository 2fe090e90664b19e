"""`nerfmac view RUN` opens on the scene: no cell has to be run, the first time and later."""

import json
import os
import subprocess
import sys
import urllib.request
from contextlib import contextmanager

import pytest

from nerfmac.app.cli import view
from nerfmac.app.cli.options import View
from nerfmac.app.run import train
from tests.app.viewer.notebook.lab import (
    end_server,
    free_port,
    jupyter_environment,
    wait_for_answer,
)
from tests.app.viewer.notebook.sight import Sight
from tests.app.viewer.notebook.tab import READY, Tab
from tests.scene_factory import COARSE

pytestmark = pytest.mark.slow

OPEN = ["--IdentityProvider.token=", "--ServerApp.password=", "--LabApp.expose_app_in_browser=True"]


@pytest.fixture(scope="module")
def made(scene, tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "run"
    train(scene, steps=60, device="cpu", config=COARSE, out=folder)
    return folder


@contextmanager
def viewing(path, folder, browser):
    """The page that `nerfmac view` opens, and the server's address."""
    port = free_port()
    command = [sys.executable, "-m", "nerfmac", "view", "--lab", str(path)]
    command += ["--no-browser", "--port", port]
    (folder / "jupyter").mkdir(parents=True, exist_ok=True)
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [*map(str, command), "--", *OPEN],
            cwd=folder,
            env=jupyter_environment(folder / "jupyter"),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    url = f"http://127.0.0.1:{port}"
    try:
        wait_for_answer(server, url, folder / "log")
        page = browser.new_page()
        tab = Tab(page, f"{url}/lab?reset")
        page.goto(url)
        yield tab, url
        page.close()
    finally:
        end_server(server)


def kernels(url):
    with urllib.request.urlopen(f"{url}/api/kernels") as answer:
        return json.load(answer)


def look(tab):
    """The viewer on the page once it has a finished image of the trained run."""
    tab.wait_for(".nerfmac-viewer")
    sight = Sight(tab)
    tab.wait_for(lambda: sight.last().get("still"))
    assert sight.last()["step"] == 60
    return sight


def test_the_scene_is_there_without_a_click_at_each_opening(made, browser, tmp_path):
    notebook = made / "view.ipynb"
    with viewing(made, tmp_path / "first", browser) as (tab, url):
        sight = look(tab)
        assert tab.page.locator(".jp-CodeCell .cm-editor:visible").count() == 0, "code is open"
        tab.screenshot("view-first")
        sight.turn((120, 0))
        tab.command("docmanager:save")
        tab.page.reload()
        look(tab).turn((-120, 0))
        assert len(kernels(url)) == 1
        tab.command("docmanager:save")
        saved = notebook.read_bytes()
        cells = json.loads(saved)["cells"]
        assert [bool(cell.get("outputs")) for cell in cells].count(True) == 1
    with viewing(made, tmp_path / "second", browser) as (tab, _):
        look(tab)
        assert notebook.read_bytes() == saved


def test_code_that_is_not_ours_does_not_run(made, browser, tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", "")
    monkeypatch.setattr(view.os, "execv", lambda *_: None)  # starts no JupyterLab
    view.main(View(path=made, lab=True))
    notebook, mark = made / "view.ipynb", tmp_path / "mark"
    values = json.loads(notebook.read_text())
    (cell, *_) = (each for each in values["cells"] if each["cell_type"] == "code")
    cell["source"] = [f"open({os.fspath(mark)!r}, 'w').close()\n", *cell["source"]]
    notebook.write_text(json.dumps(values))
    with viewing(made, tmp_path, browser) as (tab, _):
        tab.wait_for(lambda: tab.page.evaluate(READY))
        assert not mark.exists()
        assert tab.page.locator(".nerfmac-viewer").count() == 0
        tab.start("notebook:run-cell")
        tab.wait_for(mark.exists)
