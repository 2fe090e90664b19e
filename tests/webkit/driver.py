"""WebKitGTK, the engine of Safari, without a window: a small client of its WebDriver."""

import base64
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

PROGRAMS = ("WebKitWebDriver", "xvfb-run")
MISSING = "needs WebKitGTK (apt install webkit2gtk-driver xvfb)"
WAIT = 120.0  # seconds; machines may be busy
# The sandbox of WebKit does not run in containers, and there may be no GPU.
ENVIRONMENT = {"WEBKIT_DISABLE_SANDBOX_THIS_IS_DANGEROUS": "1", "LIBGL_ALWAYS_SOFTWARE": "1"}


def is_available() -> bool:
    return all(map(shutil.which, PROGRAMS)) and _browser() is not None


def _browser() -> Path | None:
    """Return the path of the browser that is a part of WebKitGTK."""
    names = "webkit2gtk-4.*/MiniBrowser", "*/webkit2gtk-4.*/MiniBrowser"
    found = sorted(path for name in names for path in Path("/usr").glob(f"lib*/{name}"))
    return found[-1] if found else None


class Page:
    """A page of the browser."""

    def __init__(self, address: str) -> None:
        self._address = address

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Return the value of a WebDriver command."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self._address + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=WAIT) as answer:
                return json.loads(answer.read())["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(error.read().decode()) from error

    def open(self, url: str) -> None:
        self.call("POST", "/url", {"url": url})

    def run(self, expression: str) -> Any:
        """Return the value of a JavaScript expression."""
        return self.call("POST", "/execute/sync", {"script": f"return {expression}", "args": []})

    def wait(self, expression: str) -> Any:
        """Wait for an expression to be true; return its value."""
        end = time.monotonic() + WAIT
        while not (value := self.run(expression)):
            assert time.monotonic() < end, f"{expression} has not come true"
            time.sleep(0.05)
        return value

    def image(self) -> np.ndarray:
        """Return a screenshot, uint8 (h, w, 3)."""
        data = base64.b64decode(self.call("GET", "/screenshot"))
        return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))

    def drag(self, *places: tuple[int, int]) -> None:
        """Drag the mouse from the first of `places` to the others."""
        moves = [{"type": "pointerMove", "duration": 50, "x": x, "y": y} for x, y in places]
        press = [{"type": "pointerDown", "button": 0}], [{"type": "pointerUp", "button": 0}]
        actions = [moves[0], *press[0], *moves[1:], *press[1]]
        mouse = {"type": "pointer", "id": "mouse", "actions": actions}
        self.call(
            "POST", "/actions", {"actions": [mouse | {"parameters": {"pointerType": "mouse"}}]}
        )


@contextmanager
def webkit(*flags: str) -> Iterator[Page]:
    """Context manager that starts the browser with `flags` and yields its page."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["xvfb-run", "-a", "WebKitWebDriver", f"--port={port}"]
    environment = {**os.environ, **ENVIRONMENT}
    driver = subprocess.Popen(command, env=environment, process_group=0, stderr=subprocess.DEVNULL)
    try:
        address = f"http://127.0.0.1:{port}"
        _wait_for(f"{address}/status")
        options = {"binary": str(_browser()), "args": ["--automation", *flags]}
        wanted = {"alwaysMatch": {"webkitgtk:browserOptions": options}}
        session = Page(address).call("POST", "/session", {"capabilities": wanted})
        page = Page(f"{address}/session/{session['sessionId']}")
        try:
            yield page
        finally:
            page.call("DELETE", "")
    finally:
        os.killpg(driver.pid, signal.SIGTERM)
        driver.wait()


def _wait_for(url: str) -> None:
    end = time.monotonic() + WAIT
    while True:
        try:
            urllib.request.urlopen(url).close()
            return
        except OSError:
            assert time.monotonic() < end, f"{url} does not answer"
            time.sleep(0.05)
