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


@pytest.mark.daily
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


SLOW_IMAGES = """
from nerfmac.app.viewer import images

draw = images.Images.draw

def slow(self, camera, focus):
    # as long as haze takes on a real capture: a full image is not drawn within the test
    time.sleep(2e-5 * camera.lens.width * camera.lens.height)
    return draw(self, camera, focus)

images.Images.draw = slow
"""


@pytest.fixture
def sight(desk, balls):
    """The first image of a new run, of a field that takes long to render."""
    tab = desk.open_notebook([BEGIN + SLOW_IMAGES, cell(balls)])
    tab.run_all()
    shown = Sight(tab)
    tab.wait_for(lambda: shown.last())
    return shown


def start_and_watch(desk, sight, delay):
    """Start training after `delay` seconds, and wait for images, without touching the page."""
    tab = sight.tab
    tab.page.wait_for_timeout(1000.0 * delay)
    sight.click("Start training")
    for _ in range(3):
        before = sight.last()["step"]
        tab.wait_for(lambda before=before: sight.last()["step"] > before)
    tab.wait_for(lambda: sight.last()["step"] > 50)
    assert desk.run("[page.is_touched for page in viewer._session.pages.values()]") == [False]


@pytest.mark.daily
def test_a_viewer_that_is_scrolled_away_gets_no_images_and_one_that_comes_back_does(desk, sight):
    start_and_watch(desk, sight, 4.0)
    tab = sight.tab
    sight.root.evaluate("root => { root.style.position = 'absolute'; root.style.top = '-9999px' }")
    tab.wait_for(lambda: not desk.run("[*viewer._session.pages.values()][0].is_visible"))
    before = sight.last()["step"]
    step = desk.run("viewer._session.run.state.step")
    tab.wait_for(lambda: desk.run("viewer._session.run.state.step") > step + 100)
    assert sight.last()["step"] <= max(before, step)
    sight.root.evaluate("root => { root.style.position = ''; root.style.top = '' }")
    tab.wait_for(lambda: sight.last()["step"] > step)
    desk.run("viewer.pause()")
