"""A viewer after its kernel stopped, restarted, or ended before the page was reloaded."""

import pytest

from tests.app.viewer.notebook.sight import Sight
from tests.app.viewer.notebook.test_robustness import begin, cell
from tests.scene_factory import write_scene

pytestmark = pytest.mark.slow

STOPPED = ".nerfmac-hint:has-text('The kernel has stopped or was restarted')"
SAVED = ".nerfmac-saved:has-text('This image was saved with the notebook')"


@pytest.fixture
def viewing(desk, tmp_path):
    """A viewer with its full image in a page."""
    scene = write_scene(tmp_path / "balls")
    tab = desk.open_notebook([begin(), cell(scene)])
    tab.run_all()
    Sight(tab).wait_for_rest()
    desk.run("viewer.train(steps=20); viewer.wait(60)")
    tab.wait_for(lambda: Sight(tab).last().get("step") == 20)
    Sight(tab).wait_for_rest()
    desk.forgive("No such comm|restarting kernel|the kernel is gone|Canceled future")
    return desk


def is_asked_in_vain(sight):
    """Drag, and check that the image does not move and all controls are disabled."""
    before = sight.record()
    sight.drag((90, 20))
    after = sight.record()
    assert [after[name] for name in ("frames", "pose")] == [
        before[name] for name in ("frames", "pose")
    ]
    assert sight.root.get_by_role("button", name="Continue training").is_disabled()


def test_a_kernel_that_hangs_is_reported_and_one_that_answers_again_is_used_again(viewing):
    tab = viewing.tabs[-1]
    sight = Sight(tab)
    pid = viewing.run("import os; os.getpid()")
    viewing.run("import os, signal, threading")
    wake = "import subprocess; subprocess.Popen(['sh', '-c', 'sleep 8; kill -CONT {0}'])"
    viewing.run(f"{wake.format(pid)}; 1")
    viewing.run("threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGSTOP)).start()")
    tab.wait_for(STOPPED)
    is_asked_in_vain(sight)
    tab.wait_for(lambda: not tab.page.locator(STOPPED).is_visible())
    sight.turn((90, 20))


def test_a_kernel_that_is_restarted_is_reported_and_nothing_moves(viewing):
    tab = viewing.tabs[-1]
    sight = Sight(tab)
    tab.restart()
    tab.wait_for(STOPPED)
    is_asked_in_vain(sight)
    tab.screenshot("kernel-restarted")


def test_a_kernel_that_crashes_is_reported(viewing):
    tab = viewing.tabs[-1]
    viewing.run("import os, signal, threading")
    viewing.run("threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGKILL)).start()")
    tab.wait_for(STOPPED)
    is_asked_in_vain(Sight(tab))


def test_a_page_loaded_again_without_its_kernel_shows_the_image_and_one_sentence(viewing):
    tab = viewing.tabs[-1]
    tab.wait_for(lambda: tab.page.locator(".jp-OutputArea-output img").count() == 1)
    assert not tab.page.locator(SAVED).is_visible()
    assert not tab.page.locator(".jp-OutputArea-output img").is_visible()
    tab.save()
    tab.restart()
    tab.reload()
    viewing.forgive("Error displaying widget|Could not create a (view|model)|model not found")
    tab.wait_for(SAVED)
    tab.wait_for(".jp-OutputArea-output img")
    tab.page.wait_for_timeout(1000)
    assert not tab.page.get_by_text("Error displaying widget").is_visible()
    assert not tab.page.get_by_text("model not found").is_visible()
    tab.screenshot("loaded-without-kernel")
