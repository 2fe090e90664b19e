"""The ground that the viewer's tests stand on: every kind of trouble fails a test."""

import re

import pytest

from tests.app.viewer.notebook.desk import at_desk
from tests.app.viewer.notebook.kernel import KernelError

pytestmark = pytest.mark.slow

ON_THE_PAGE = {
    "console: a page is unhappy": "console.error('a page is unhappy')",
    "page error: .*by a timer": "setTimeout(() => { throw Error('thrown by a timer') })",
    "page error: .*promised": "Promise.reject(Error('promised')) && 0",
    "console: .* 404": "fetch('/nowhere').then(() => 0)",
}
IN_THE_KERNEL = {
    "printed as an error": "print('printed as an error', file=sys.stderr)",
    "UserWarning: a warning": "warnings.warn('a warning')",
    "ZeroDivisionError": "thread = threading.Thread(target=lambda: 1 / 0); thread.start()",
}


def test_each_kind_of_trouble_is_seen(desk):
    tab = desk.open_notebook(["kept = 3"])
    tab.run_all()
    assert desk.run("doubled = 2 * kept\n{'doubled': [doubled, None]}") == {"doubled": [6, None]}
    with pytest.raises(KernelError, match="OSError: 3"):
        desk.run("raise OSError(3)\n1")
    home = desk.run("import jupyter_core.paths as p; p.jupyter_config_dir()")
    assert home.startswith(str(desk.lab.notebooks.parent)), "Jupyter would read the user's own"
    desk.run("import sys, threading, warnings")
    for script in ON_THE_PAGE.values():
        tab.page.evaluate(script)
    for code in IN_THE_KERNEL.values():
        desk.run(code)
    for pattern in [*ON_THE_PAGE, *IN_THE_KERNEL]:
        tab.wait_for(lambda p=pattern: any(re.search(p, said) for said in desk.troubles))
        desk.forgive(pattern)
    assert desk.troubles == []


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
