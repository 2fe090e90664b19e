"""Queries and actions of the tests on a viewer in a page."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.app.viewer.notebook.tab import Tab
from tests.scene_factory import COARSE

IMAGE = ".nerfmac-image"
LOST = 15.0  # time in seconds after which a drag without an effect counts as lost


BEGIN = f"""
import json, time, nerfmac
from nerfmac.config import Config

config = Config.from_json(json.loads({json.dumps(COARSE.to_json())!r}))
"""
"""Code of the first cell of a notebook with small viewers."""


def cell(scene: Path, name: str = "viewer") -> str:
    """Return the code of a cell that creates and displays a viewer."""
    return f"{name} = nerfmac.Viewer({str(scene)!r}, config=config)\n{name}"


class Sight:
    """The `number`th viewer of a page, as its user sees it."""

    def __init__(self, tab: Tab, number: int = 0) -> None:
        self.tab = tab
        self.number = number
        self.root = tab.page.locator(".nerfmac-viewer").nth(number)

    def record(self) -> dict[str, Any]:
        """The page's record of its frames; empty before a viewer exists."""
        script = f"""() => {{
          const root = document.querySelectorAll(".nerfmac-viewer")[{self.number}];
          return root ? {{ now: performance.now(), ...root.nerfmac }} : {{}};
        }}"""
        return self.tab.page.evaluate(script)

    def last(self) -> dict[str, Any]:
        """The message of the last frame drawn; empty before the first."""
        return self.record().get("lastFrame") or {}

    def wait_for_rest(self) -> "Sight":
        """Wait until the image is finished: training is not under way."""
        self.tab.wait_for(lambda: self.last().get("still"))
        return self

    def pose(self) -> np.ndarray:
        """The camera of the last frame, (3, 4)."""
        return np.reshape(self.last()["pose"], (3, 4))

    def drag(self, by: tuple[float, float], steps: int = 20, *, hold: bool = False) -> None:
        self.tab.drag(f".nerfmac-viewer >> nth={self.number} >> {IMAGE}", by, steps, hold=hold)

    def turn(self, by: tuple[float, float]) -> None:
        """Drag until the camera has turned: twice, if the element still moved on a busy machine."""
        before = self.pose()

        def has_turned() -> bool:
            return not np.allclose(self.pose(), before, atol=0.01)

        self.drag(by)
        try:
            self.tab.wait_for(has_turned, LOST)
        except TimeoutError:
            self.drag(by)
            self.tab.wait_for(has_turned)

    def seen(self) -> np.ndarray:
        """The content of the image area, float (h, w, 3) in [0, 1]."""
        shown = self.tab.image(f".nerfmac-viewer >> nth={self.number} >> canvas.nerfmac-frame")
        return shown / 255.0

    def click(self, label: str) -> None:
        self.root.get_by_role("button", name=label, exact=True).click()

    def step(self) -> int:
        digits = self.root.locator("dd[data-name=step]").text_content() or ""
        return int("".join(each for each in digits if each.isdigit()) or 0)
