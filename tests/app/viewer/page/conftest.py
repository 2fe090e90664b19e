"""The page alone, in Chromium: a server for its modules, and views with a test as their kernel."""

import http.server
import threading
from pathlib import Path

import numpy as np
import pytest

from nerfmac.app import viewer
from nerfmac.app.paths.view import View as Pose
from tests.app.viewer.page.driver import View

PAGE = Path(viewer.__file__).parent / "page"
HERE = Path(__file__).parent


class _Files(http.server.SimpleHTTPRequestHandler):
    """Serves the page's modules under /page/, and the files of the tests under /."""

    def translate_path(self, path):
        name = path.split("?")[0].removeprefix("/")
        return str(PAGE / name.removeprefix("page/") if name.startswith("page/") else HERE / name)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="session")
def origin():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Files) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def tabs(browser):
    """Return a function that gives the tab with a touch screen or not, and of a scale."""
    known = {}

    def tab(has_touch, scale):
        if (has_touch, scale) not in known:
            context = browser.new_context(
                viewport={"width": 900, "height": 700},
                has_touch=has_touch,
                device_scale_factor=scale,
            )
            context.set_default_timeout(120_000)  # on a busy machine
            known[has_touch, scale] = View(context.new_page())
        return known[has_touch, scale]

    yield tab
    for view in known.values():
        view.page.context.close()


@pytest.fixture
def open_view(tabs, origin):
    """A function that opens a view in the tab of this file; any error in a console is a failure."""
    views = []

    def open_one(has_touch=False, scale=1.0, **options):
        views.append(tabs(has_touch, scale))
        return views[-1].open(origin, **options)

    yield open_one
    for view in views:
        view.run("window.endView?.()")
        errors, view.errors[:] = list(view.errors), []
        assert errors == []


@pytest.fixture
def view(open_view):
    """Return a live view with an image of 640 x 480 at the top left corner of the page."""
    return open_view().live()


@pytest.fixture
def shown(view):
    view.show()
    view.forget()
    return view


@pytest.fixture(scope="module")
def call(browser, origin):
    """Return a function that calls an exported function of a module of the page."""
    tab = browser.new_page()
    tab.set_default_timeout(120_000)
    tab.goto(f"{origin}/fake.html")

    def call_one(module, function, *arguments):
        return tab.evaluate(
            """async ([module, name, values]) =>
              (await import(`/page/${module}.js`))[name](...values)""",
            [module, function, list(arguments)],
        )

    yield call_one
    tab.close()


@pytest.fixture(scope="module")
def moved(call):
    """Return a function that moves a view with a function of navigation.js."""

    def move(view, function, *travel):
        values = [each if isinstance(each, dict) else np.asarray(each).tolist() for each in travel]
        moved = call("motion/navigation", function, view.to_json(), *values)
        pose, center = np.reshape(moved["pose"], (3, 4)), np.array(moved["center"])
        return Pose(pose, center, np.array(moved["up"]), moved["fov"])

    return move
