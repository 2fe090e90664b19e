"""An exported page in a browser, opened from disk and without a network."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Browser, ConsoleMessage

from nerfmac.geometry.cameras import Camera

HERE = Path(__file__).parent
WAIT = 120.0  # seconds; machines may be busy


class Tab:
    """A tab with a page, after JavaScript `before`; it collects console errors and requests."""

    def __init__(self, browser: Browser, path: Path, before: str = "", **options: Any) -> None:
        shown = {"viewport": {"width": 96, "height": 72}, "reduced_motion": "reduce", **options}
        self.browser = browser
        self.context = browser.new_context(offline=True, **shown)
        self.page = self.context.new_page()
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", self._hear)
        if before:
            self.page.add_init_script(before)
        self.page.goto(path.as_uri())
        self.address = path.as_uri()

    def _hear(self, said: ConsoleMessage) -> None:
        # A screenshot reads WebGL pixels, and Chromium warns that this is slow.
        if said.type in ("error", "warning") and "GPU stall due to ReadPixels" not in said.text:
            self.errors.append(said.text)

    def run(self, expression: str, argument: Any = None) -> Any:
        """Return the value of a JavaScript expression, or the result of a JavaScript function."""
        return self.page.evaluate(expression, argument)

    def wait(self, expression: str) -> Any:
        """Wait for an expression to be true; return its value.

        Playwright's wait_for_function evaluates text in the page, but the page's policy forbids it.
        """
        end = time.monotonic() + WAIT
        while not (value := self.run(expression)):
            assert time.monotonic() < end, f"{expression} has not come true; errors {self.errors}"
            time.sleep(0.02)
        return value

    def shows(self) -> str:
        """Wait until the page shows something; return what: field or still."""
        return self.wait("document.body.dataset.shows")

    def rest(self) -> None:
        """Wait until the image has its full size and all its samples."""
        screen = "document.body.nerfmac.flight.screen"
        self.wait(f"{screen} && {screen}.shown && !{screen}.isRunning")

    def view(self) -> dict[str, Any]:
        return self.run("document.body.nerfmac.flight.view")

    def call(self, name: str, **arguments: Any) -> Any:
        text = (HERE / "probe.js").read_text(encoding="utf-8")
        given = [name, arguments]
        return self.run(f"async ([name, given]) => {text.strip()}[name](given)", given)

    def probe(self, points: np.ndarray, columns: int) -> np.ndarray:
        """What probe.wgsl finds at `points` (n, 2, 3), (n, columns + 10)."""
        text = (HERE / "probe.wgsl").read_text(encoding="utf-8")
        rows = np.concatenate([points.reshape(-1, 3), np.zeros((2 * len(points), 1))], axis=1)
        given = {"text": text, "points": rows.tolist(), "columns": columns + 10}
        return np.array(self.call("probe", **given)).reshape(len(points), -1)

    def image(
        self,
        camera: Camera,
        offsets: Sequence[tuple[float, float]] = ((0.5, 0.5),),
        strips: int = 64,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return linear color sums, sample counts, and depths from the tracer of the page."""
        lens = camera.lens
        sums, depths = self.call(
            "image",
            pose=camera.pose.ravel().tolist(),
            lens=[lens.fl_x, lens.fl_y, lens.cx, lens.cy],
            width=lens.width,
            height=lens.height,
            offsets=offsets,
            strips=strips,
        )
        size = lens.height, lens.width
        return np.array(sums).reshape(*size, 4), np.array(depths).reshape(size)

    def close(self) -> None:
        """Close the tab; fail if its console had errors, or if it asked for anything."""
        asked = [url for url in self.requests if url != self.address]
        self.context.close()
        assert self.errors == []
        assert asked == []
