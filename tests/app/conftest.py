"""One Chromium for all tests in a row that need a browser, and their marker."""

import os
from collections.abc import Generator
from contextlib import ExitStack
from typing import Any

import pytest

RUNNING = ExitStack()
"""The Chromium of this process, entered by the first test that needs it."""
_browsers: list[Any] = []


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that need a browser."""
    for item in items:
        if needs_browser(item):
            item.add_marker(pytest.mark.browser)


def needs_browser(item: pytest.Item) -> bool:
    return "browser" in getattr(item, "fixturenames", ())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None]:
    """End Chromium before a test of another file that does not need it.

    Its event loop runs in this thread, where no other event loop can run at the same time.
    """
    yield
    is_same_file = nextitem is not None and nextitem.path == item.path
    if nextitem is None or not (is_same_file or needs_browser(nextitem)):
        _browsers.clear()
        RUNNING.close()


@pytest.fixture(scope="module")
def browser() -> Any:
    """Headless Chromium with WebGPU. Without Chromium, tests are skipped, and in CI they fail."""
    try:
        from tests.app.viewer.notebook import browser
    except ModuleNotFoundError as error:
        reason = f"needs Playwright ({error})"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    if not _browsers:
        flags = browser.NO_FRAME_RATE_LIMIT, *browser.WEBGPU
        _browsers.append(RUNNING.enter_context(browser.running_chromium(*flags)))
    return _browsers[0]
