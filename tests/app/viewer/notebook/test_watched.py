"""A user who presses Start and then only watches: images come, however the start is timed."""

import pytest

from tests.app.viewer.notebook.sight import BEGIN, Sight, cell

pytestmark = pytest.mark.slow

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
    assert desk.run("viewer._loop._is_touched") is False


def test_after_start_images_keep_coming_though_no_one_touches_the_page(desk, sight):
    start_and_watch(desk, sight, 0.5)
    desk.run("viewer.pause()")


def test_a_viewer_that_is_scrolled_away_gets_no_images_and_one_that_comes_back_does(desk, sight):
    start_and_watch(desk, sight, 4.0)
    tab = sight.tab
    sight.root.evaluate("root => { root.style.position = 'absolute'; root.style.top = '-9999px' }")
    tab.wait_for(lambda: not desk.run("viewer._session.screen.is_visible"))
    before = sight.last()["step"]
    step = desk.run("viewer._session.run.state.step")
    tab.wait_for(lambda: desk.run("viewer._session.run.state.step") > step + 100)
    assert sight.last()["step"] <= max(before, step)
    sight.root.evaluate("root => { root.style.position = ''; root.style.top = '' }")
    tab.wait_for(lambda: sight.last()["step"] > step)
    desk.run("viewer.pause()")
