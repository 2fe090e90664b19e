"""The ground that the viewer's tests stand on, tried with a counter in place of the viewer."""

import re
import sys

import numpy as np
import pytest
from PIL import Image

from tests.app.viewer.notebook.browser import chromium
from tests.app.viewer.notebook.desk import at_desk
from tests.app.viewer.notebook.kernel import KernelError, blocks
from tests.app.viewer.notebook.tab import Tab

pytestmark = pytest.mark.slow

COUNTER = '''
import anywidget, traitlets

class Counter(anywidget.AnyWidget):
    _esm = """
    export default {
      render({ model, el }) {
        const box = document.createElement("div");
        box.className = "counter";
        box.style = "width: 300px; height: 100px; background: rgb(10, 200, 30)";
        const show = () => { box.textContent = `at ${model.get("value")}`; };
        box.onpointerdown = event => box.setPointerCapture(event.pointerId);
        box.onpointermove = event => { if (event.buttons) model.send({ x: event.movementX }); };
        model.on("change:value", show);
        el.append(box);
        show();
      },
    };
    """
    value = traitlets.Int(0).tag(sync=True)

    def __init__(self):
        super().__init__()
        self.on_msg(self.move)

    def move(self, _, content, buffers):
        self.value += content["x"]
        if self.value > 100:
            raise OverflowError("counted too far")
'''
ENDLESS = "kept = 3\nprint('under way')\nwhile True:\n    pass"


def test_probes_drags_and_an_interrupt_reach_the_kernel_and_each_kind_of_trouble_is_seen(desk):
    desk.expect("KeyboardInterrupt")
    tab = desk.open_notebook([COUNTER, "counter = Counter()\ncounter", ENDLESS])
    tab.start("notebook:run-all-cells")
    tab.wait_for(".jp-OutputArea-output:has-text('under way')")
    with pytest.raises(TimeoutError):
        desk.run("kept", timeout=0.5)
    tab.interrupt()
    assert desk.run("doubled = 2 * kept\n{'doubled': [doubled, None]}") == {"doubled": [6, None]}
    assert desk.run("kept = 4") is None
    assert desk.run("kept") == 4
    for code, error in [("1 / 0", "ZeroDivisionError"), ("raise OSError(3)\n1", "OSError: 3")]:
        with pytest.raises(KernelError, match=error):
            desk.run(code)
    assert desk.run("import sys; sys.executable") == sys.executable
    home = desk.run("import jupyter_core.paths as p; p.jupyter_config_dir()")
    assert home.startswith(str(desk.lab.notebooks.parent)), "Jupyter would read the user's own"
    tab.drag(".counter", by=(40, 7), steps=5, start=(0.1, 0.8))
    tab.wait_for(".counter:text('at 40')")
    assert desk.run("counter.value") == 40
    tab.drag(".counter", by=(140, 0))
    provoked = {
        "console: a page is unhappy": "console.error('a page is unhappy')",
        "page error: .*by a timer": "setTimeout(() => { throw Error('thrown by a timer') })",
        "page error: .*promised": "Promise.reject(Error('promised')) && 0",
        "console: .* 404": "fetch('/nowhere').then(() => 0)",
    }
    for script in provoked.values():
        tab.page.evaluate(script)
    desk.run("import sys, threading, warnings; print('printed as an error', file=sys.stderr)")
    desk.run("warnings.warn('a warning')")
    desk.run("thread = threading.Thread(target=lambda: 1 / 0); thread.start(); thread.join()")
    told = ["counted too far", "printed as an error", "UserWarning: a warning", "ZeroDivisionError"]
    for pattern in [*provoked, *told]:
        tab.wait_for(lambda p=pattern: any(re.search(p, said) for said in desk.troubles))
    with pytest.raises(AssertionError, match="a page is unhappy"):
        desk.check()
    for pattern in [*provoked, *told]:
        desk.forgive(pattern)
    assert desk.troubles == []


def test_images_and_screenshots_show_what_the_page_shows(browser, tmp_path, monkeypatch):
    with browser.new_page(viewport={"width": 300, "height": 200}, device_scale_factor=2) as page:
        page.set_content("<p style='width: 90px; height: 30px; background: rgb(10, 200, 30)'>")
        tab = Tab(page, "")
        assert tab.image("p").shape == (60, 180, 3)
        assert np.unique(tab.image("p").reshape(-1, 3), axis=0).tolist() == [[10, 200, 30]]
        monkeypatch.delenv("NERFMAC_ARTIFACTS", raising=False)
        tab.screenshot("unwanted")
        monkeypatch.setenv("NERFMAC_ARTIFACTS", str(tmp_path / "kept"))
        tab.screenshot("wanted")
    (kept,) = tmp_path.rglob("*.png")
    assert kept == tmp_path / "kept" / "wanted.png"
    with Image.open(kept) as image:
        assert image.size == (600, 400)


def test_a_desk_that_is_left_in_trouble_fails_and_so_does_one_without_the_expected(lab, browser):
    with pytest.raises(AssertionError, match="NameError: name 'nothing'"):  # noqa: SIM117
        with at_desk(lab, browser) as desk:
            assert desk.open_notebook(["nothing"]).command("notebook:run-all-cells") is False
    with pytest.raises(AssertionError, match="did not come: a storm"):  # noqa: SIM117
        with at_desk(lab, browser) as desk:
            desk.expect("a storm")
    assert lab.ask("kernels") == []


def test_a_kernel_that_crashes_as_the_test_ends_is_trouble(desk):
    desk.expect("the kernel is gone|restarting kernel")  # the latter once the server has noticed
    desk.forgive("No such comm")  # a request of the page that the old kernel did not answer
    crash = "import os, time\nprint('under way')\ntime.sleep(0.5)\nos.abort()"
    tab = desk.open_notebook([crash])
    tab.start("notebook:run-all-cells")
    tab.wait_for(".jp-OutputArea-output:has-text('under way')")


@pytest.mark.parametrize(
    ("ci", "outcome"), [("", pytest.skip.Exception), ("true", pytest.fail.Exception)]
)
def test_without_chromium_a_test_is_skipped_but_fails_in_ci(ci, outcome, monkeypatch):
    monkeypatch.setenv("CI", ci)
    monkeypatch.setenv("NERFMAC_CHROMIUM", "/nowhere/chromium")
    either = (pytest.skip.Exception, pytest.fail.Exception)
    with pytest.raises(either, match=r"scripts/install_chromium\.sh") as raised:
        chromium("/nowhere/of/its/own")
    assert raised.type is outcome


def test_what_is_said_on_standard_error_is_told_apart():
    traceback = (
        "Exception in thread Thread-3 (<lambda>):\n"
        "Traceback (most recent call last):\n"
        '  File "threading.py", line 982, in run\n'
        "    self._target()\n"
        "ZeroDivisionError: division by zero"
    )
    warning = "a.py:1: UserWarning: a warning\n  warnings.warn('a warning')"
    text = "\n".join(["one", traceback, "two", warning, "three", traceback, ""])
    assert blocks(text) == ["one", traceback, "two", warning, "three", traceback]
    assert blocks("\n \n") == []
