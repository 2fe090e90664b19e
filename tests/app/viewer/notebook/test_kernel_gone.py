"""A viewer whose kernel is gone, one that is only watched, and troubles that fail a test."""

import os
import signal

import pytest

from tests.app.viewer.notebook.sight import BEGIN, Sight, cell

pytestmark = pytest.mark.slow

STOPPED = ".nerfmac-hint:has-text('The kernel has stopped or was restarted')"
SAVED = ".nerfmac-saved:has-text('This image was saved with the notebook')"
IMAGE = ".jp-OutputArea-output img"


@pytest.fixture
def viewing(desk, balls):
    tab = desk.open_notebook([BEGIN, cell(balls)])
    tab.run_all()
    sight = Sight(tab).wait_for_rest()
    desk.run("viewer.train(steps=20); viewer.wait(60)")
    tab.wait_for(lambda: sight.last().get("step") == 20)
    sight.wait_for_rest()
    desk.forgive("No such comm|restarting kernel|the kernel is gone|Canceled future")
    return desk


def is_reported(sight):
    """Wait for the report; after a drag, the image stays, and all controls are disabled."""
    sight.tab.wait_for(STOPPED)
    before = sight.record()
    sight.drag((90, 20))
    after = sight.record()
    assert [after[name] for name in ("frames", "pose")] == [
        before[name] for name in ("frames", "pose")
    ]
    assert sight.root.get_by_role("button", name="Continue training").is_disabled()


def test_a_kernel_that_hangs_or_crashes_is_reported_and_one_that_answers_again_is_used(viewing):
    tab = viewing.tabs[-1]
    sight = Sight(tab)
    kernel = viewing.run("import os; os.getpid()")
    os.kill(kernel, signal.SIGSTOP)
    is_reported(sight)
    os.kill(kernel, signal.SIGCONT)
    tab.wait_for(lambda: not tab.page.locator(STOPPED).is_visible())
    sight.turn((90, 20))
    os.kill(kernel, signal.SIGKILL)
    is_reported(sight)


def test_a_restarted_kernel_is_reported_and_a_page_loaded_again_shows_the_saved_image(viewing):
    tab = viewing.tabs[-1]
    tab.wait_for(lambda: tab.page.locator(IMAGE).count() == 1)
    assert not tab.page.locator(SAVED).is_visible()
    assert not tab.page.locator(IMAGE).is_visible()
    tab.save()
    tab.restart()
    is_reported(Sight(tab))
    tab.screenshot("kernel-restarted")
    tab.reload()
    viewing.forgive("Error displaying widget|Could not create a (view|model)|model not found")
    tab.wait_for(SAVED)
    assert tab.wait_for(IMAGE).bounding_box()["width"] > 300
    tab.page.wait_for_timeout(1000)
    assert not tab.page.get_by_text("Error displaying widget").is_visible()
    assert not tab.page.get_by_text("model not found").is_visible()
    tab.screenshot("loaded-without-kernel")
