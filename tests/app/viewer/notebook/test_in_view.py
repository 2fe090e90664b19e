"""Results of a user action are visible at once, on wide and narrow pages."""

import pytest

from tests.app.viewer.notebook.desk import at_desk
from tests.app.viewer.notebook.sight import BEGIN, Sight, cell

pytestmark = pytest.mark.slow

HEIGHT = 800

IS_ON_TOP = """element => {
  const { left, top, right, bottom } = element.getBoundingClientRect();
  const columns = [left + 4, (left + right) / 2, right - 4];
  const rows = [top + 4, (top + bottom) / 2, bottom - 4];
  // At a point of a video, Chromium 150 reports the parent of the video.
  const reported = element.tagName === "VIDEO" ? element.parentElement : null;
  const isSeen = (x, y) => {
    const top = document.elementFromPoint(x, y);
    return top !== null && (element.contains(top) || top === reported);
  };
  return right > left && columns.every(x => rows.every(y => isSeen(x, y)));
}"""
"""Whether the corners, edges and middle of an element are on the page with nothing over them."""


@pytest.fixture(scope="module")
def viewer(lab, browser, balls):
    """A viewer at rest on a page, for the tests below one after the other."""
    with at_desk(lab, browser, viewport={"width": 1280, "height": HEIGHT}) as desk:
        tab = desk.open_notebook([BEGIN, cell(balls)])
        tab.run_all()
        yield Sight(tab).wait_for_rest()


@pytest.fixture(params=[1280, 900, 600])
def sight(viewer, request):
    """That viewer on a page of that width, with no panel open and nothing compared."""
    viewer.tab.page.set_viewport_size({"width": request.param, "height": HEIGHT})
    yield viewer.wait_for_rest()
    for left in ("[aria-expanded=true]", "[title='End the comparison']:visible"):
        for button in viewer.root.locator(left).all():
            button.click()


def come_on_top(sight, selector, *, scrolled=False):
    """Wait until the elements are in view: JupyterLab lays out the notebook after a click."""
    for element in sight.root.locator(selector).all():
        if scrolled:
            element.scroll_into_view_if_needed()
        sight.tab.wait_for(lambda element=element: element.evaluate(IS_ON_TOP))


def begin_comparison(sight):
    """Open the view panel, and begin a comparison; it may wait for the kernel's compiler."""
    sight.click("View panel")
    come_on_top(sight, ".nerfmac-panel-view")
    come_on_top(sight, "button[title='View panel']")
    come_on_top(sight, "button[title='Stand in the nearest training camera']", scrolled=True)
    sight.click("Stand in the nearest training camera")
    sight.tab.wait_for(".nerfmac-compare")


def test_a_comparison_is_in_view_and_no_panel_lies_over_it(sight):
    begin_comparison(sight)
    come_on_top(sight, ".nerfmac-compare button")
    assert sight.root.locator(".nerfmac-panel:visible").count() == 0
    sight.tab.screenshot("compared")


def test_a_comparison_can_be_ended_beside_an_open_panel(sight):
    begin_comparison(sight)
    sight.click("Path panel")
    sight.root.locator(".nerfmac-compare").scroll_into_view_if_needed()
    come_on_top(sight, "button[title='End the comparison']")


def test_a_video_is_in_view_once_it_is_done(sight):
    sight.click("Path panel")
    sight.root.get_by_label("Seconds of video").fill("0.5")
    sight.root.get_by_label("Frames per second").fill("4")
    sight.root.get_by_label("Size", exact=True).select_option(index=0)
    sight.click("Render the video")
    sight.tab.wait_for(".nerfmac-download")
    come_on_top(sight, "video")
    come_on_top(sight, ".nerfmac-download", scrolled=True)
    sight.tab.screenshot("recorded")
