"""`nerfmac view --lab RUN` opens a notebook whose first cell shows the scene."""

import subprocess
import sys
from contextlib import contextmanager

import pytest

from nerfmac import Goal, train
from tests.app.viewer.notebook import lab
from tests.app.viewer.notebook.sight import Sight
from tests.app.viewer.notebook.tab import READY, Tab
from tests.scene_factory import COARSE

pytestmark = pytest.mark.slow

OPEN = ["--IdentityProvider.token=", "--ServerApp.password=", "--LabApp.expose_app_in_browser=True"]


@pytest.fixture(scope="module")
def made(scene, tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "run"
    train(scene, config=COARSE, goal=Goal(steps=60), out=folder)
    return folder


@contextmanager
def viewing(path, folder, browser):
    """The page that `nerfmac view` opens."""
    port = lab.free_port()
    command = [sys.executable, "-m", "nerfmac", "view", "--lab", str(path)]
    command += ["--no-browser", "--port", port]
    (folder / "jupyter").mkdir(parents=True, exist_ok=True)
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [*map(str, command), "--", *OPEN],
            cwd=folder,
            env=lab.jupyter_environment(folder / "jupyter"),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    url = f"http://127.0.0.1:{port}"
    try:
        lab.wait_for_answer(server, url, folder / "log")
        page = browser.new_page()
        tab = Tab(page, f"{url}/lab?reset")
        page.goto(url)
        yield tab
        page.close()
    finally:
        lab.end_server(server)


def look(tab):
    """Run the first cell, and return the viewer once it has a finished image of the run."""
    tab.wait_for(lambda: tab.page.evaluate(READY))
    tab.start("notebook:run-cell")
    tab.wait_for(".nerfmac-viewer")
    sight = Sight(tab)
    tab.wait_for(lambda: sight.last().get("still"))
    assert sight.last()["step"] == 60
    return sight


@pytest.mark.daily
def test_the_first_cell_shows_the_scene_at_each_opening(made, browser, tmp_path):
    notebook = made / "view.ipynb"
    with viewing(made, tmp_path / "first", browser) as tab:
        look(tab).turn((120, 0))
        assert tab.page.locator(".jp-CodeCell .cm-editor:visible").count() == 0, "code is open"
        tab.screenshot("view-first")
        tab.command("docmanager:save")
        saved = notebook.read_bytes()
    with viewing(made, tmp_path / "second", browser) as tab:
        look(tab)
        assert notebook.read_bytes() == saved
