"""A simulated notebook user: a page, a notebook, its kernel; any unexpected error is a failure."""

import re
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import nbformat
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Error

from tests.app.viewer.notebook.kernel import Kernel
from tests.app.viewer.notebook.lab import Lab
from tests.app.viewer.notebook.tab import Tab

SERVER_TROUBLE = re.compile(r"^\[[EC] |Traceback|restarting kernel|Fatal Python error|^Segm", re.M)
HARMLESS = {
    r"^standard error: No such comm target registered: jupyter\.widget\.control$": (
        "every page asks a new kernel for its widgets, before ipywidgets is imported there"
    ),
    r"^page error: .*Canceled future for \w+ message before replies were done$": (
        "what a page had asked a kernel that was restarted; that it was is trouble of its own"
    ),
}

# Known errors of Jupyter: a page was closed while a message to it was being sent; a page requested
# a subshell from a kernel that had only just started, or the end of a subshell of an earlier
# kernel.
HARMLESS_IN_LOG = re.compile(
    r"^Task exception was never retrieved\nfuture: .*WebSocketClosedError\(\)>\n"
    r"(?:.*\n)*?tornado\.websocket\.WebSocketClosedError$"
    r"|^\[E .*(?:Uncaught exception in (?:ZMQStream|zmqstream) callback|Exception in callback .*)\n"
    r"(?:    .*\n)*?    tornado\.websocket\.WebSocketClosedError$"
    r"|^.*Exception in control handler:\nTraceback.*\n"
    r"(?:  .*\n)*  .* in (?:create|delete)_subshell_request\n(?:  .*\n)*AssertionError$",
    re.M,
)


class Desk:
    """Tools for a test of the viewer in a notebook, created and cleaned up by `at_desk`."""

    def __init__(self, lab: Lab, context: BrowserContext) -> None:
        self.lab = lab
        self.tabs: list[Tab] = []
        self._context = context
        self._kernel: Kernel | None = None
        self._name = ""
        self._forgiven: list[str] = []
        self._expected: list[str] = []
        self._on_pages: list[str] = []
        self._log_before = len(lab.said)
        self._ears = {
            "console": self._hear,
            "weberror": lambda error: self._on_pages.append(f"page error: {error.error}"),
        }
        for event, ear in self._ears.items():
            context.on(event, ear)

    @property
    def kernel(self) -> Kernel:
        assert self._kernel, "open a notebook first"
        return self._kernel

    def open_notebook(self, cells: list[str], name: str = "tried") -> Tab:
        """Write a notebook of these cells of code, open it in a page, and start its kernel."""
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
        nbformat.write(notebook, self.lab.notebooks / f"{name}.ipynb")
        return self.open_existing(f"{name}.ipynb")

    def open_existing(self, name: str) -> Tab:
        """Open an existing notebook in `lab.notebooks`, and start its kernel."""
        self._name = name
        self._kernel = Kernel(self.lab.start_kernel(name))  # connects before the first message
        return self.open_tab()

    def open_tab(self) -> Tab:
        """Open one more page on the notebook; all open pages use one kernel."""
        workspace = f"page{len(self.tabs)}"  # each its own, or they would close one another's files
        url = f"{self.lab.url}/lab/workspaces/{workspace}/tree/{urllib.parse.quote(self._name)}"
        left = [page for page in self._context.pages if not any(page is t.page for t in self.tabs)]
        page = left[0] if left else self._context.new_page()
        page.on("crash", lambda: self._on_pages.append("a page crashed"))
        tab = Tab(page, f"{url}?reset")
        self.tabs.append(tab)
        tab.open()
        return tab

    def run(self, code: str, timeout: float = 60.0) -> Any:
        """Run `code` in the kernel; return the value of its last line. See `Kernel.run`."""
        return self.kernel.run(code, timeout)

    def forgive(self, pattern: str) -> None:
        """Let trouble pass that matches the regular expression, if it comes."""
        self._forgiven.append(pattern)

    def expect(self, pattern: str) -> None:
        """Let trouble pass that matches the regular expression; it must come."""
        self._expected.append(pattern)

    @property
    def heard(self) -> list[str]:
        """Return all errors so far, including forgiven and expected ones."""
        log = HARMLESS_IN_LOG.sub("", self.lab.said[self._log_before :])
        lines = [f"server: {line}" for line in log.splitlines() if SERVER_TROUBLE.search(line)]
        return [*self._on_pages, *(self._kernel.troubles if self._kernel else []), *lines]

    @property
    def troubles(self) -> list[str]:
        """All that went wrong so far and is neither forgiven, expected nor known as harmless."""
        passed = [*HARMLESS, *self._forgiven, *self._expected]
        return [said for said in self.heard if not any(re.search(p, said) for p in passed)]

    def check(self) -> None:
        """Fail on any trouble, and on trouble that was expected and did not come."""
        if self._kernel:
            self._kernel.settle()
        missed = [p for p in self._expected if not any(re.search(p, s) for s in self.heard)]
        faults = [*self.troubles, *(f"expected, but did not come: {p}" for p in missed)]
        assert not faults, "trouble in the notebook:\n" + "\n".join(faults)

    def leave(self) -> None:
        """Hang up on the kernel, leave one page for the next user, and end the kernel."""
        if self._kernel:
            self._kernel.close()
        for event, ear in self._ears.items():
            self._context.remove_listener(event, ear)
        for page in self._context.pages[1:]:
            page.close()
        for page in self._context.pages:
            try:
                page.evaluate("() => localStorage.clear()")
                page.goto(f"{self.lab.url}/api")  # of the same server, for a page keeps its modules
            except Error:  # it has crashed, or hangs
                page.close()
        self._context.clear_cookies()
        self.lab.stop_kernels()

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self._on_pages.append(f"console: {message.text} ({message.location.get('url')})")


@contextmanager
def at_desk(lab: Lab, browser: Browser, **options: Any) -> Iterator[Desk]:
    """A desk that fails on exit if an unexpected error occurred.

    A page takes long to load all of JupyterLab, so that of the previous user is reused, without its
    state. `options` are those of Playwright's `new_context`; with them, a new page is created.
    """
    kept = [] if options else [each for each in browser.contexts if each.pages]
    view = {"viewport": {"width": 1280, "height": 900}, **options}
    context = kept[0] if kept else browser.new_context(**view)
    desk = Desk(lab, context)
    try:
        yield desk
        desk.check()
    finally:
        desk.leave()
        if options:
            context.close()
