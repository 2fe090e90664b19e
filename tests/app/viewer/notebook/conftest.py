"""Fixtures of the tests that use the viewer as a user does: in JupyterLab, in a browser."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.app.viewer.notebook.desk import Desk, at_desk
from tests.app.viewer.notebook.lab import Lab


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo):
    """After a failed test, save screenshots of its pages and print the server log."""
    report = yield
    used = getattr(item, "funcargs", {})
    if report.failed and "lab" in used:
        report.sections.append(("JupyterLab's log", used["lab"].said[-8000:]))
    if report.failed and report.when == "call":
        desks = {id(each): each for each in used.values() if isinstance(each, Desk)}
        for number, tab in enumerate(tab for desk in desks.values() for tab in desk.tabs):
            if not tab.page.is_closed():
                tab.screenshot(f"{item.name}-failed-{number}")
    return report


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with Lab(tmp_path_factory.mktemp("lab")) as running:
        yield running


@pytest.fixture
def desk(lab: Lab, browser: Browser) -> Iterator[Desk]:
    """A user at a notebook, with nothing kept of others; any unexpected error fails the test."""
    with at_desk(lab, browser) as sitting:
        yield sitting
