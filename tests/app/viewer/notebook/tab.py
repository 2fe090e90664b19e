"""A page with an open notebook, and user actions on it."""

import io
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from playwright.sync_api import Page

PATIENCE = 120.0  # maximum waiting time in seconds for anything on a page of a busy machine

# Jupyter's own names: the notebook is loaded, its kernel has started and answers. Without the last,
# cells that are run are lost. It gives up after a while, to be asked again: a page that hangs would
# hang the test.
READY = """() => {
  const isReady = async () => {
    const notebook = window.jupyterapp?.shell.currentWidget;
    if (!notebook?.context) return false;
    await notebook.context.ready;
    await notebook.sessionContext.ready;
    await notebook.sessionContext.session.kernel.info;
    return true;
  };
  return Promise.race([isReady(), new Promise(say => setTimeout(() => say(false), 1000))]);
}"""
BEGIN = """() => {
  window.outcome = undefined;
  (PROMISE).then(
    value => { window.outcome = { value: value ?? null } },
    error => { window.outcome = { error: String(error) } });
}"""
COMMAND = "window.jupyterapp.commands.execute('NAME')"
RESTART = "window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()"


class Tab:
    """One page of a browser on one notebook. `page` is Playwright's, for all that is not here."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self._url = url
        page.set_default_timeout(1000 * PATIENCE)

    def open(self) -> None:
        """Load the notebook, and wait until its kernel answers."""
        self.page.goto(self._url)
        self.wait_for(lambda: self.page.evaluate(READY))

    def reload(self) -> None:
        """Reload the page as with F5; unsaved changes are lost."""
        self.page.reload()
        self.wait_for(lambda: self.page.evaluate(READY))

    def command(self, name: str, timeout: float = PATIENCE) -> Any:
        """Run a command of JupyterLab, such as "notebook:run-cell", and return its result."""
        return self._finish(COMMAND.replace("NAME", name), timeout)

    def start(self, name: str) -> None:
        """Run a command of JupyterLab and do not wait for its end."""
        self._begin(COMMAND.replace("NAME", name))

    def run_all(self, timeout: float = 120.0) -> None:
        """Run every cell to its end. `start("notebook:run-all-cells")` does not wait."""
        assert self.command("notebook:run-all-cells", timeout), "a cell failed"

    def interrupt(self) -> None:
        self.command("notebook:interrupt-kernel")

    def restart(self) -> None:
        """Restart the kernel, as the notebook's command does once its question is answered."""
        self._finish(RESTART, PATIENCE)
        self.wait_for(lambda: self.page.evaluate(READY))

    def save(self) -> None:
        """Save the notebook with its outputs: a reloaded page shows the saved outputs."""
        self.command("docmanager:save")

    def wait_for(self, what: str | Callable[[], Any], timeout: float = PATIENCE) -> Any:
        """Wait until a selector is visible or a function is true, or a TimeoutError; return it."""
        if isinstance(what, str):
            return self.page.wait_for_selector(what, timeout=1000 * timeout)
        end = time.monotonic() + timeout
        while not (value := what()):
            if time.monotonic() > end:
                raise TimeoutError(f"not true within {timeout:.0f} s")
            self.page.wait_for_timeout(50)
        return value

    def drag(
        self,
        selector: str,
        by: tuple[float, float],
        steps: int = 10,
        *,
        hold: bool = False,
        start: tuple[float, float] = (0.5, 0.5),
        button: str = "left",
    ) -> None:
        """Press on an element at `start`, a fraction of its size, move by CSS pixels, and release.

        With `hold` the button stays down: continue with `page.mouse`, and end with `release`.
        """
        self.page.bring_to_front()  # one behind another draws nothing and is slow to answer
        element = self.page.locator(selector).first
        element.scroll_into_view_if_needed()
        box = element.bounding_box()
        assert box, f"{selector} is not on the page"
        x, y = box["x"] + start[0] * box["width"], box["y"] + start[1] * box["height"]
        self.page.mouse.move(x, y)
        self.page.mouse.down(button=button)
        self.page.mouse.move(x + by[0], y + by[1], steps=steps)
        if not hold:
            self.release(button)

    def release(self, button: str = "left") -> None:
        self.page.mouse.up(button=button)

    def image(self, selector: str) -> np.ndarray:
        """Return a screenshot of an element, `(height, width, 3)` bytes, in device pixels."""
        shown = self.page.locator(selector).first.screenshot()
        return np.asarray(Image.open(io.BytesIO(shown)).convert("RGB"))

    def screenshot(self, name: str) -> None:
        """Save a screenshot of the page as NAME.png in $NERFMAC_ARTIFACTS, if that is set."""
        folder = os.environ.get("NERFMAC_ARTIFACTS")
        if folder:
            self.page.screenshot(path=Path(folder) / f"{name}.png")  # which makes the folder

    def close(self) -> None:
        """Close the page as a user does, without a warning to it; the kernel continues."""
        self.page.close()

    def _begin(self, promise: str) -> None:
        self.page.evaluate(BEGIN.replace("PROMISE", promise))

    def _finish(self, promise: str, timeout: float) -> Any:
        self._begin(promise)
        self.wait_for(lambda: self.page.evaluate("() => window.outcome !== undefined"), timeout)
        outcome = self.page.evaluate("() => window.outcome")
        assert "error" not in outcome, f"{promise}: {outcome['error']}"
        return outcome["value"]
