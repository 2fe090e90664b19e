"""Two viewers, a page loaded again, an interrupted kernel, a page closed in mid-drag, any size."""

import numpy as np
import pytest

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


@pytest.mark.daily
def test_an_interrupted_kernel_trains_on_and_shows_it(desk, balls):
    desk.expect("KeyboardInterrupt")
    waiting = "print('under way')\nviewer.wait()"
    tab = desk.open_notebook([BEGIN + SLOW_TRAINING, cell(balls), "viewer.train()", waiting])
    tab.start("notebook:run-all-cells")
    tab.wait_for(".jp-OutputArea-output:has-text('under way')")
    sight = Sight(tab)
    # Its kernels are compiled by then; an interruption would end a compiler too.
    tab.wait_for(lambda: sight.last() and sight.step() > 0)
    tab.interrupt()
    tab.wait_for(".jp-OutputArea-output:has-text('KeyboardInterrupt')")
    trains_on(desk, tab)
    sight.turn((90, 20))
    desk.run("viewer.pause()")


def test_a_page_loaded_again_while_it_trains_shows_everything(desk, balls):
    tab = desk.open_notebook([BEGIN + SLOW_TRAINING, cell(balls)])
    tab.run_all()
    Sight(tab).wait_for_rest()
    tab.save()
    desk.run("viewer.train()")
    trains_on(desk, tab)
    before = step(desk)
    tab.reload()
    sight = Sight(tab)
    tab.wait_for(lambda: sight.last())
    tab.wait_for(lambda: sight.step() > before)
    sight.turn((90, 20))
    trains_on(desk, tab)
    desk.run("viewer.pause()")
