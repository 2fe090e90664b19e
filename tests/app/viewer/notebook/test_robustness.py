"""Two viewers, watching only, a page loaded again or closed, and an interrupted kernel."""

import numpy as np
import pytest

from tests.app.viewer.notebook.desk import at_desk
from tests.app.viewer.notebook.sight import BEGIN, Sight, cell

pytestmark = pytest.mark.slow

SLOW_TRAINING = """
from nerfmac.app.viewer.loop import Loop

work = Loop.work

def unhurried(self):
    pause = work(self)
    if self._session.training.is_running:
        time.sleep(0.1)  # or it would take the cores that the page needs, for as long as it trains
    return pause

Loop.work = unhurried
"""


def step(desk, name="viewer"):
    return desk.run(f"{name}._session.run.state.step")


def trains_on(desk, tab, name="viewer"):
    """Wait for more steps than are under way."""
    before = step(desk, name)
    tab.wait_for(lambda: step(desk, name) > before + 8)


def test_two_viewers_at_once_train_and_turn_each_by_itself(desk, balls):
    tab = desk.open_notebook([BEGIN + SLOW_TRAINING, cell(balls, "one"), cell(balls, "two")])
    tab.run_all()
    first, second = Sight(tab, 0), Sight(tab, 1)
    first.wait_for_rest()
    second.wait_for_rest()
    desk.run("one.train(); two.train()")
    trains_on(desk, tab, "one")
    trains_on(desk, tab, "two")
    pose = first.pose()
    second.turn((90, 20))
    assert np.allclose(first.pose(), pose)
    first.turn((-60, 10))
    trains_on(desk, tab, "one")
    trains_on(desk, tab, "two")
    # An acknowledgment from the first page may be in transit when its viewer closes.
    desk.forgive(r"^standard error: No such comm: \w+$")
    desk.run("one.close(); two.pause()")
    tab.wait_for(lambda: tab.page.locator(".nerfmac-viewer").count() == 1)
    assert desk.run("len(two._worker._due)") == 1


def test_an_interrupted_kernel_trains_on_and_shows_it(desk, balls):
    desk.expect("KeyboardInterrupt")
    waiting = "print('under way')\nviewer.wait()"
    tab = desk.open_notebook([BEGIN + SLOW_TRAINING, cell(balls), "viewer.train()", waiting])
    tab.start("notebook:run-all-cells")
    tab.wait_for(".jp-OutputArea-output:has-text('under way')")
    tab.interrupt()
    tab.wait_for(".jp-OutputArea-output:has-text('KeyboardInterrupt')")
    trains_on(desk, tab)
    sight = Sight(tab)
    tab.wait_for(lambda: sight.last())
    sight.turn((90, 20))
    desk.run("viewer.pause()")


@pytest.fixture(scope="module")
def with_a_viewer(lab, browser, balls):
    """A user at a notebook with one viewer. The tests below share it, one after the other.

    The tests above use separate desks; when one of them is closed, all kernels end.
    """
    with at_desk(lab, browser) as desk:
        tab = desk.open_notebook([BEGIN + SLOW_TRAINING, cell(balls)])
        tab.run_all()
        Sight(tab).wait_for_rest()
        tab.save()
        yield desk


@pytest.fixture
def viewing(with_a_viewer):
    """That desk, with the image at rest in its last page; any error fails the test."""
    Sight(with_a_viewer.tabs[-1]).wait_for_rest()
    yield with_a_viewer
    # A failed test must not fail those that follow; a restarted kernel has no viewer.
    with_a_viewer.run("'viewer' in globals() and viewer.pause()")
    with_a_viewer.check()


def test_a_page_loaded_again_while_it_trains_shows_everything(viewing):
    tab = viewing.tabs[-1]
    viewing.run("viewer.train()")
    trains_on(viewing, tab)
    before = step(viewing)
    tab.reload()
    sight = Sight(tab)
    tab.wait_for(lambda: sight.last())
    tab.wait_for(lambda: sight.step() > before)
    sight.turn((90, 20))
    trains_on(viewing, tab)


def test_a_page_closed_in_mid_drag_leaves_a_kernel_that_trains_on(viewing):
    tab = viewing.tabs[-1]
    sight = Sight(tab)
    viewing.run("viewer.train()")
    trains_on(viewing, tab)
    sight.drag((60, 10), hold=True)
    tab.close()
    other = viewing.open_tab()
    trains_on(viewing, other)
    sight = Sight(other)
    other.wait_for(lambda: sight.last())
    assert viewing.run("viewer._session.notice") is None
    sight.turn((90, 20))


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
