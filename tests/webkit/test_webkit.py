"""The viewer and an exported page in the engine of Safari, which has no WebGPU here."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from tests.scene_factory import FLAGS, nerfmac, write_scene
from tests.webkit.driver import MISSING, is_available, webkit

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not is_available(), reason=MISSING),
]
VIEWER = "document.querySelector('.nerfmac-viewer')"
LAST = f"{VIEWER}?.nerfmac.lastFrame"
SHOWN = "document.body.dataset.shows"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("webkit")
    scene, run = write_scene(folder / "balls"), folder / "run"
    assert nerfmac("train", scene, *FLAGS, "--steps", 200, "--no-video", "--out", run) == 0
    return run


@pytest.fixture(scope="module")
def exported(run):
    page = run.with_name("page.html")
    assert nerfmac("export", run, page, "--device", "cpu", "--background", "white") == 0
    return page.as_uri()


@pytest.fixture(scope="module")
def address(run):
    """Serve the viewer, and return the address of its page."""
    command = [sys.executable, "-P", "-m", "nerfmac", "view", str(run), "--no-browser"]
    served = subprocess.Popen(
        command, env={**os.environ, "MLX_DEVICE": "cpu"}, stdout=subprocess.PIPE, text=True
    )
    yield served.stdout.readline().strip()
    served.send_signal(signal.SIGINT)
    served.communicate(timeout=120)


def scene_on(page):
    """Wait until the scene is drawn in the middle of the page; return a screenshot."""
    for _ in range(200):
        image = page.image()
        height, width = image.shape[:2]
        if image[height // 4 : -height // 4, width // 4 : -width // 4].std() > 5:
            return image
    raise AssertionError("the page shows no scene")


def is_visible(selector):
    return f"document.querySelector('{selector}').getBoundingClientRect().height > 0"


def test_the_exported_page_shows_its_still_and_says_what_webgpu_needs(exported):
    with webkit() as page:
        page.open(exported)
        assert page.wait(SHOWN) == "still"
        assert "Safari on macOS 26" in page.run("document.getElementById('note').textContent")
        assert not page.run(is_visible("noscript"))
        assert page.run("document.getElementById('still').naturalWidth") > 0
        scene_on(page)


@pytest.mark.daily
def test_the_exported_page_says_how_to_open_it_where_no_script_runs(exported):
    with webkit("--enable-javascript=false") as page:
        page.open(exported)
        assert not page.run(SHOWN)
        assert "runs no scripts" in page.run("document.querySelector('noscript').textContent")
        assert page.run(is_visible("noscript .note"))
        scene_on(page)


def test_the_viewer_shows_the_run_and_follows_the_mouse(address):
    with webkit() as page:
        page.open(address)
        page.wait(f"{LAST}?.still")
        before, pose = scene_on(page), page.run(f"{VIEWER}.nerfmac.pose")
        frames = page.run(f"{VIEWER}.nerfmac.frames.length")
        page.drag((400, 300), (450, 310), (520, 320))
        page.wait(f"{VIEWER}.nerfmac.frames.length > {frames} && {LAST}.still")
        assert not np.allclose(page.run(f"{VIEWER}.nerfmac.pose"), pose)
        after = scene_on(page)
        assert np.abs(after.astype(float) - before).mean() > 1


@pytest.mark.daily
def test_each_panel_of_the_viewer_opens(address):
    with webkit() as page:
        page.open(address)
        page.wait(f"{LAST}?.still")
        for title in ("Training", "View", "Path"):
            buttons = f"[...{VIEWER}.querySelectorAll('button')]"
            button = f"{buttons}.find((each) => each.textContent.trim() === '{title}')"
            page.run(f"({button}.click(), true)")
            page.wait(f"{button}.getAttribute('aria-expanded') === 'true'")
        scene_on(page)
