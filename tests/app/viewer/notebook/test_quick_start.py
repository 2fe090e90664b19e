"""The quick start as its reader goes through it: run, watch, drag, pause, video, play."""

import numpy as np
import pytest

from tests.app.viewer.notebook.sight import Sight
from tests.conftest import ROOT

NOTEBOOK = "1_quick_start.ipynb"
TRAINING = "train(seconds=20)"


@pytest.mark.slow
def test_the_quick_start_can_be_run_watched_dragged_paused_and_recorded(desk):
    text = (ROOT / "notebooks" / NOTEBOOK).read_text(encoding="utf-8")
    # Small images and a small video: the usual ones take minutes on a busy machine.
    shorter = text
    for usual, small in (
        (TRAINING, "train(steps=100)"),
        ("builtin_scene_path())", "load_scene(nerfmac.builtin_scene_path(), downscale=4))"),
        ("size=(320, 240)", "size=(64, 48)"),
    ):
        assert usual in shorter
        shorter = shorter.replace(usual, small)
    (desk.lab.notebooks / NOTEBOOK).write_text(shorter, encoding="utf-8")
    tab = desk.open_existing(NOTEBOOK)
    tab.start("notebook:run-all-cells")
    tab.wait_for(".nerfmac-viewer", timeout=300)
    sight = Sight(tab)
    drag_while_it_trains(tab, sight)
    tab.wait_for(lambda: tab.page.evaluate("() => window.outcome !== undefined"), timeout=300)
    assert tab.page.evaluate("() => window.outcome") == {"value": True}, "a cell failed"
    assert tab.page.locator(".jp-OutputArea-output video:not(.nerfmac-video)").count() == 1
    continue_and_pause(desk, tab, sight)
    drag_at_rest(desk, tab, sight)
    render_video(desk, tab, sight)
    tab.screenshot("quick-start")


def drag_while_it_trains(tab, sight):
    tab.wait_for(lambda: sight.step() > 10, timeout=300)  # there are kernels to build first
    tab.wait_for(lambda: sight.last(), timeout=300)
    before = sight.pose()
    sight.drag((150, 40))
    tab.wait_for(lambda: not np.allclose(sight.pose(), before, atol=0.05), timeout=300)
    tab.screenshot("quick-start-training")


def continue_and_pause(desk, tab, sight):
    step = sight.step()
    sight.click("Continue training")
    tab.wait_for(lambda: sight.step() > step + 20, timeout=300)
    sight.click("Pause training")
    tab.wait_for(lambda: not desk.run("viewer._session.training.is_running"))
    tab.wait_for(lambda: sight.last().get("still"), timeout=300)
    tab.wait_for(lambda: desk.run("viewer.run.state.step") == sight.step())


def drag_at_rest(desk, tab, sight):
    pixels = sight.root.locator("canvas.nerfmac-frame")
    shown, pose = pixels.evaluate("canvas => canvas.toDataURL()"), sight.pose()
    sight.drag((-120, 30))

    def has_arrived():
        # An image of a place on the way may be finished before the last move comes.
        asked = np.reshape(sight.record()["view"]["pose"], (3, 4))
        there = desk.run("viewer.view.pose.tolist()")
        is_there = all(np.allclose(asked, each, atol=1e-5) for each in (there, sight.pose()))
        return is_there and sight.last()["still"]

    tab.wait_for(has_arrived, timeout=300)
    assert not np.allclose(sight.pose(), pose, atol=0.05)
    tab.wait_for(lambda: pixels.evaluate("canvas => canvas.toDataURL()") != shown)


def render_video(desk, tab, sight):
    """Between two keyframes, a second of four frames of the smallest size, and play it."""
    sight.click("Path panel")
    sight.click("Add the current view to the path")
    sight.drag((200, -20))
    sight.click("Add the current view to the path")
    tab.wait_for(lambda: desk.run("len(viewer.path.keyframes)") == 2)
    sight.root.get_by_label("Seconds of video").fill("1")
    sight.root.get_by_label("Frames per second").fill("4")
    sight.root.get_by_label("Size", exact=True).select_option(index=4)
    sight.click("Render the video")
    video = sight.root.locator("video.nerfmac-video")
    tab.wait_for(lambda: abs(video.evaluate("video => video.duration") - 1.0) < 0.15, timeout=300)
    video.evaluate("video => video.play()")
    tab.wait_for(lambda: video.evaluate("video => video.currentTime > 0.3"))
