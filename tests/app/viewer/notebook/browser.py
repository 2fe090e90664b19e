"""Chromium for the tests: an installed browser, started by Playwright without a window."""

import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, sync_playwright

NAMES = ("google-chrome-stable", "google-chrome", "chromium", "chromium-browser")
ON_A_MAC = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)
FLAGS = (
    *("--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
)
NO_FRAME_RATE_LIMIT = "--disable-frame-rate-limit"
"""Flag for pages without a window, which otherwise get about two frames a second."""
WEBGPU = (
    *("--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader", "--enable-unsafe-swiftshader"),
)
"""Chromium's flags for WebGPU and WebGL without a GPU."""


def chromium(own: str) -> str:
    """Return $NERFMAC_CHROMIUM, an installed browser, or `own`; skip the test, or fail in CI."""
    named = os.environ.get("NERFMAC_CHROMIUM")
    on_a_mac = ON_A_MAC if platform.system() == "Darwin" else ()
    for candidate in [named] if named else [*NAMES, *on_a_mac, own]:
        path = shutil.which(candidate)
        if path:
            return path
    reason = "needs Chromium (scripts/install_chromium.sh installs it)"
    if os.environ.get("CI"):  # where a test that is skipped would go unseen
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@contextmanager
def running_chromium(*flags: str) -> Iterator[Browser]:
    """Start Chromium with more `flags`, and end it with all its pages."""
    with sync_playwright() as playwright:
        path = chromium(playwright.chromium.executable_path)
        browser = playwright.chromium.launch(executable_path=path, args=[*FLAGS, *flags])
        try:
            yield browser
        finally:
            browser.close()
